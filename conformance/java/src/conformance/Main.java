// Runs the tests: every public method of a class that derives from Suite, once per variant of it.
// Prints a line per test.

package conformance;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Stream;

public final class Main {
    static final int SECONDS_PER_TEST = 90;

    static final List<Supplier<Suite>> SUITES = List.of(
        Batches::new, Feeds::new, Items::new, Programs::new, Queries::new, Repartition::new, Resources::new,
        Scripts::new, CosmosTables::new, StorageTables::new);

    final String wanted;
    final List<String> results = new ArrayList<>();
    boolean hasFailed;

    Main(String wanted) {
        this.wanted = wanted;
    }

    public static void main(String[] arguments) throws Exception {
        List<String> given = List.of(arguments);
        Main main = new Main(option(given, "-k", ""));
        try (Server server = new Server("--throttling", "off")) {
            Trust.only(server.authority());
            for (Supplier<Suite> suite : SUITES) main.run(suite, server);
        }
        String results = option(given, "--results", null);
        if (results != null) Files.write(Path.of(results), main.results);
        // The threads of the SDKs do not end with their clients.
        System.exit(main.hasFailed ? 1 : 0);
    }

    static String option(List<String> given, String name, String otherwise) {
        int at = given.indexOf(name);
        return at >= 0 && at + 1 < given.size() ? given.get(at + 1) : otherwise;
    }

    void run(Supplier<Suite> kind, Server server) throws Exception {
        for (String variant : kind.get().variants()) {
            Suite suite = kind.get();
            List<Method> tests = Stream.of(suite.getClass().getMethods())
                .filter(method -> Suite.class.isAssignableFrom(method.getDeclaringClass()) && method.getDeclaringClass() != Suite.class)
                .filter(method -> method.getParameterCount() == 0 && !Modifier.isStatic(method.getModifiers()))
                .filter(method -> name(suite, method, variant).contains(wanted))
                .sorted(Comparator.comparing(Method::getName))
                .toList();
            if (tests.isEmpty()) continue;
            suite.open(server, variant);
            for (Method test : tests) run(suite, test, name(suite, test, variant));
            suite.close();
        }
    }

    static String name(Suite suite, Method test, String variant) {
        return suite.getClass().getSimpleName() + "::" + test.getName() + "[" + variant + "]";
    }

    void run(Suite suite, Method test, String name) throws InterruptedException {
        long started = System.nanoTime();
        Throwable error = null;
        var executor = Executors.newSingleThreadExecutor();
        try {
            executor.submit(() -> test.invoke(suite)).get(SECONDS_PER_TEST, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            error = failed.getCause() instanceof InvocationTargetException inside ? inside.getCause() : failed.getCause();
        } catch (TimeoutException late) {
            error = late;
        }
        executor.shutdownNow();
        String outcome = error == null ? "pass" : "fail";
        hasFailed |= error != null;
        results.add(outcome + "\t" + name);
        System.out.println(outcome + " " + name + " (" + (System.nanoTime() - started) / 1_000_000 + " ms)");
        if (error != null) error.printStackTrace(System.out);
    }
}
