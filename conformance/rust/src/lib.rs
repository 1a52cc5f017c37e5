//! What every test needs: a connected client, a database of its own, and one helper that expects a
//! refusal. The server is started by `run`, which passes its ready line in `PLANISPHERE_READY`.

use std::sync::atomic::{AtomicU64, Ordering};

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::{ContainerClient, CosmosClient, DatabaseClient};
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, ResponseHeaders, ThroughputProperties,
};
use azure_data_cosmos::options::{
    BatchOptions, BinaryEncodingOptions, ConnectionPoolOptions, ContentResponseOnWrite,
    CreateContainerOptions, ItemWriteOptions, OperationOptions, ServerCertificateValidation,
};
use azure_data_cosmos::{
    AccountReference, CosmosError, CosmosRuntime, FeedScope, PartitionKey, Query, RoutingStrategy,
};
use futures::TryStreamExt;
use serde_json::Value;

/// How one variant of a test talks to the server.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// `http` or `https`; both are served on one port.
    pub scheme: &'static str,
    /// Whether item bodies travel as Cosmos binary JSON, which is the default of the SDK.
    pub binary: bool,
}

/// A connected client with an empty database of its own.
pub struct Account {
    pub client: CosmosClient,
    pub database: DatabaseClient,
    pub variant: Variant,
}

/// The endpoint of the server for one scheme, and its key.
pub fn server(scheme: &str) -> (String, String) {
    announced("PLANISPHERE_READY", scheme)
}

/// The endpoint and key from the ready line in the environment variable `variable`.
fn announced(variable: &str, scheme: &str) -> (String, String) {
    let line = std::env::var(variable).expect("tests are started by the run script");
    let ready: Value = serde_json::from_str(&line).expect("the ready line is JSON");
    let endpoint = ready["endpoints"]["nosql"].as_str().expect("an endpoint").to_owned();
    let key = ready["key"].as_str().expect("a key").to_owned();
    (endpoint.replacen("http", scheme, 1), key)
}

/// A client that does not check certificates, as usual with a server on this machine.
pub async fn connect(
    variant: Variant,
    endpoint: &str,
    key: &str,
) -> azure_data_cosmos::Result<CosmosClient> {
    let pool = ConnectionPoolOptions::builder()
        .with_server_certificate_validation(ServerCertificateValidation::RequiredUnlessEmulator)
        .build()?;
    let mut encoding = BinaryEncodingOptions::default();
    encoding.enabled = variant.binary;
    CosmosClient::builder()
        .with_runtime(CosmosRuntime::builder().with_connection_pool(pool).build().await?)
        .with_binary_encoding_options(encoding)
        .build(
            AccountReference::with_authentication_key(
                endpoint.parse().expect("a valid endpoint"),
                Secret::from(key.to_owned()),
            ),
            RoutingStrategy::PreferredRegions(Vec::new()),
        )
        .await
}

/// A name no other test of this run uses.
pub fn new_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{number}", std::process::id())
}

impl Account {
    /// Connects and creates the database.
    pub async fn open(variant: Variant) -> Self {
        Self::open_at(server(variant.scheme), variant).await
    }

    /// The same at the server that limits throughput, over http.
    pub async fn limited() -> Self {
        let variant = Variant { scheme: "http", binary: true };
        Self::open_at(announced("PLANISPHERE_LIMITED", variant.scheme), variant).await
    }

    async fn open_at((endpoint, key): (String, String), variant: Variant) -> Self {
        let client = connect(variant, &endpoint, &key).await.expect("a connected client");
        let id = new_id("db");
        client.create_database(&id, None).await.expect("a new database");
        let database = client.database_client(id);
        Self { client, database, variant }
    }

    /// Creates a container partitioned by `/pk`.
    pub async fn container(&self) -> ContainerClient {
        self.container_with(ContainerProperties::new(new_id("c"), "/pk".into()), None).await
    }

    /// Creates a container with another key, and throughput if given.
    pub async fn keyed(
        &self,
        key: impl Into<PartitionKeyDefinition>,
        throughput: Option<u64>,
    ) -> ContainerClient {
        let properties = ContainerProperties::new(new_id("c"), key.into());
        self.container_with(properties, throughput).await
    }

    /// Creates a container from its properties.
    pub async fn container_with(
        &self,
        properties: ContainerProperties,
        throughput: Option<u64>,
    ) -> ContainerClient {
        let id = properties.id.to_string();
        let options = throughput.map(|amount| {
            CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(amount))
        });
        self.database.create_container(properties, options).await.expect("a new container");
        self.database.container_client(&id, None).await.expect("a client of the container")
    }

    /// Deletes the database with all it holds.
    pub async fn close(self) {
        self.database.delete(None).await.expect("the database goes away");
    }
}

/// Asserts that the service refused with `status` and hands out the error.
#[track_caller]
pub fn refused<T>(result: azure_data_cosmos::Result<T>, status: u16) -> CosmosError {
    let error = match result {
        Ok(_) => panic!("expected the service to refuse with {status}"),
        Err(error) => error,
    };
    assert_eq!(u16::from(error.status().status_code()), status, "{error}");
    error
}

/// The sub-status of an error, 0 when there is none.
pub fn substatus(error: &CosmosError) -> u16 {
    error.status().sub_status().map_or(0, |code| code.value())
}

/// The message the service sent with an error.
pub fn message(error: &CosmosError) -> String {
    let response = error.response().expect("an answer of the service");
    let body: Value = response.body().clone().into_single().expect("an error body");
    body["message"].as_str().expect("a message").to_owned()
}

/// The request units that a response reports.
pub fn charge(headers: &ResponseHeaders) -> f64 {
    headers.request_charge().expect("a request charge").value()
}

/// The sequence number of a session token such as `0:-1#57`.
pub fn token_lsn(headers: &ResponseHeaders) -> u64 {
    let token = headers.session_token().expect("a session token").to_string();
    token.rsplit('#').next().and_then(|lsn| lsn.parse().ok()).expect("a sequence number")
}

fn with_content() -> OperationOptions {
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    operation
}

/// Options that ask for the written item in the response, which the SDK leaves out by default.
pub fn answered() -> ItemWriteOptions {
    ItemWriteOptions::default().with_operation_options(with_content())
}

/// The same for batches.
pub fn answered_batch() -> BatchOptions {
    BatchOptions::default().with_operation_options(with_content())
}

/// The item without system properties, as the client sent it.
pub fn without_system(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| !name.starts_with('_'));
    }
    item
}

/// Reads an item.
pub async fn read(
    container: &ContainerClient,
    key: impl Into<PartitionKey>,
    id: &str,
) -> azure_data_cosmos::Result<Value> {
    container.read_item(key, id, None).await?.into_model()
}

/// All rows of a query in `scope`.
pub async fn query(
    container: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> azure_data_cosmos::Result<Vec<Value>> {
    container.query_items::<Value>(query, scope, None).await?.try_collect().await
}

/// The sorted ids of all items of a container.
pub async fn ids(container: &ContainerClient) -> Vec<String> {
    let found = query(container, "SELECT * FROM c", FeedScope::full_container()).await;
    let mut ids: Vec<String> = found
        .expect("the container answers")
        .iter()
        .map(|item| item["id"].as_str().expect("a text id").to_owned())
        .collect();
    ids.sort();
    ids
}

/// Runs each named test over both transports and both encodings of item bodies.
#[macro_export]
macro_rules! variants {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                $crate::variants!(@one $test, http_binary, "http", true);
                $crate::variants!(@one $test, http_text, "http", false);
                $crate::variants!(@one $test, https_binary, "https", true);
                $crate::variants!(@one $test, https_text, "https", false);
            }
        )+
    };
    (@one $test:ident, $name:ident, $scheme:literal, $binary:literal) => {
        #[tokio::test]
        async fn $name() {
            let variant = $crate::Variant { scheme: $scheme, binary: $binary };
            let account = $crate::Account::open(variant).await;
            super::$test(&account).await;
            account.close().await;
        }
    };
}
