package conformance;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.List;

/** An item of most tests. */
@JsonIgnoreProperties(ignoreUnknown = true)
@JsonInclude(JsonInclude.Include.NON_NULL)
public record Thing(String id, String pk, int n, String name, List<String> tags, Part part) {
    public record Part(String kind, double weight) { }

    public Thing(String id, String pk, int n) {
        this(id, pk, n, null, null, null);
    }
}
