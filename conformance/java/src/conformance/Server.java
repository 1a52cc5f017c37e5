// Starts the real binary on free ports and stops it again.

package conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** One running server. HTTP, HTTPS and Direct mode share its ports. */
public final class Server implements AutoCloseable {
    static final int PATIENCE = 30;
    static final ObjectMapper JSON = new ObjectMapper();

    final Process process;
    final Path data;
    final JsonNode said;

    public Server(String... arguments) throws Exception {
        this(Files.createTempDirectory("planisphere-java-"), arguments);
    }

    /** A server that keeps its data, and so its authority, where another had them. */
    Server(Path data, String... arguments) throws Exception {
        this.data = data;
        List<String> all = new ArrayList<>(
            List.of(binary(), "serve", "--data", data.toString(), "--ports", "auto", "--ready-json", "--durability", "relaxed"));
        all.addAll(List.of(arguments));
        process = new ProcessBuilder(all).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = CompletableFuture.supplyAsync(() -> {
            try {
                return lines.readLine();
            } catch (IOException ended) {
                return null;
            }
        }).completeOnTimeout(null, PATIENCE, TimeUnit.SECONDS).get();
        if (line == null) {
            process.destroyForcibly();
            throw new IllegalStateException(binary() + " did not get ready");
        }
        said = JSON.readTree(line);
    }

    static String binary() {
        String binary = System.getenv("PLANISPHERE_BIN");
        if (binary == null) throw new IllegalStateException("set PLANISPHERE_BIN to a planisphere binary");
        return binary;
    }

    public String key() {
        return said.get("key").asText();
    }

    /** The https address of a listener, by a name that its certificate has. */
    public String endpoint(String listener) {
        URI plain = URI.create(said.get("endpoints").get(listener).asText());
        return "https://localhost:" + plain.getPort() + plain.getPath();
    }

    /** The certificate that vouches for the server's own. */
    public Certificate authority() throws Exception {
        Process export = new ProcessBuilder(binary(), "cert", "--data", data.toString())
            .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        byte[] pem = export.getInputStream().readAllBytes();
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(pem));
    }

    /** One call of the admin API; GET without a body, else POST. */
    public JsonNode admin(String path, String body) throws Exception {
        URI address = URI.create(said.get("endpoints").get("admin").asText() + "_admin/v1/" + path);
        var request = HttpRequest.newBuilder(address).header("content-type", "application/json");
        if (body != null) request.POST(HttpRequest.BodyPublishers.ofString(body));
        var response = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        Expect.that(response.statusCode() < 300, path + " is done, not " + response.body());
        return JSON.readTree(response.body());
    }

    /** Asks for a graceful shutdown; a server that ignores it fails the run. */
    @Override
    public void close() throws Exception {
        process.destroy();
        boolean hasEnded = process.waitFor(PATIENCE, TimeUnit.SECONDS);
        if (!hasEnded) process.destroyForcibly();
        try (Stream<Path> files = Files.walk(data)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
        }
        if (!hasEnded || process.exitValue() != 0) throw new IllegalStateException("the server did not end as it was asked to");
    }
}
