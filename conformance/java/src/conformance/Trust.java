// What a program does to trust the server: a trust store of its own, named by a system property.

package conformance;

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;

final class Trust {
    static final String PASSWORD = "changeit";
    static Path file;
    static KeyStore store;

    private Trust() { }

    /** Makes these authorities the only ones that new clients trust. */
    static void only(Certificate authority) throws Exception {
        store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        file = Files.createTempFile("planisphere-java-", ".p12");
        file.toFile().deleteOnExit();
        System.setProperty("javax.net.ssl.trustStore", file.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
        also(authority);
    }

    static void also(Certificate authority) throws Exception {
        store.setCertificateEntry("planisphere-" + store.size(), authority);
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
    }
}
