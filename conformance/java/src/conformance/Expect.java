// Ways to say what is expected. Failures are exceptions.

package conformance;

import com.azure.cosmos.CosmosException;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;

final class Expect {
    private static final int PATIENCE = 30;

    private Expect() { }

    static void that(boolean holds, String what) {
        if (!holds) throw new AssertionError("expected: " + what);
    }

    static void equal(Object expected, Object found) {
        if (!Objects.equals(expected, found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    /** The service refuses with this status. */
    static CosmosException refused(int status, Callable<?> work) throws Exception {
        try {
            work.call();
        } catch (CosmosException refusal) {
            if (refusal.getStatusCode() != status) throw refusal;
            return refusal;
        }
        throw new AssertionError("expected " + status + ", nothing was refused");
    }

    static CosmosException refused(int status, int substatus, Callable<?> work) throws Exception {
        CosmosException refusal = refused(status, work);
        equal(substatus, refusal.getSubStatusCode());
        return refusal;
    }

    /** Waits until something holds. */
    static void inTheEnd(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
        while (!holds.call()) {
            that(System.nanoTime() < end, what);
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    static <T> List<T> all(Iterable<T> feed) {
        return StreamSupport.stream(feed.spliterator(), false).collect(Collectors.toList());
    }

    static <T extends Comparable<T>> List<T> sorted(Iterable<T> feed) {
        return all(feed).stream().sorted().toList();
    }

    /** The numbers from `from` to `to` - 1. */
    static List<Integer> numbers(int from, int to) {
        return IntStream.range(from, to).boxed().toList();
    }
}
