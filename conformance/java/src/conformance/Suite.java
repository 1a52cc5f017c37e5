// What every file of tests needs.

package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** Tests that share a server. Each makes the databases, containers or tables that it needs. */
public abstract class Suite {
    private final List<AutoCloseable> open = new ArrayList<>();
    Server server;
    String variant;

    /** Ways to connect; every test runs once in each. */
    abstract List<String> variants();

    void open(Server server, String variant) throws Exception {
        this.server = server;
        this.variant = variant;
    }

    void close() throws Exception {
        for (AutoCloseable one : open) one.close();
    }

    /** What is closed after the last test. */
    <T extends AutoCloseable> T keep(T one) {
        open.add(one);
        return one;
    }

    static String newId(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 13);
    }
}
