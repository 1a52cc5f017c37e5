package conformance;

import com.azure.core.credential.AzureNamedKeyCredential;

public final class CosmosTables extends Tables {
    @Override
    String listener() {
        return "table";
    }

    @Override
    AzureNamedKeyCredential credential() {
        return new AzureNamedKeyCredential("localhost", server.key());
    }
}
