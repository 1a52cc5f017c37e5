package conformance;

import com.azure.core.credential.AzureNamedKeyCredential;

public final class StorageTables extends Tables {
    static final String DEVELOPMENT_KEY =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    @Override
    String listener() {
        return "table_storage";
    }

    @Override
    AzureNamedKeyCredential credential() {
        return new AzureNamedKeyCredential("devstoreaccount1", DEVELOPMENT_KEY);
    }
}
