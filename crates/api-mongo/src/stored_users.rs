//! The users that commands made. They are kept in the database `admin` as configuration of this
//! front end.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner, OpaqueResource};
use engine::{Database, Error, RequestContext};
use model::{Object, Value, bson};

use crate::document::document;
use crate::rights::{ADMIN, Role};
use crate::scram::{Mechanism, Verifier};
use crate::{MongoError, Service};

/// A user that a command made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredUser {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) id: [u8; 16],
    pub(crate) roles: Vec<Role>,
    pub(crate) custom_data: Option<Object>,
    pub(crate) credentials: Vec<Credential>,
}

/// How a user can log in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credential {
    pub(crate) mechanism: Mechanism,
    pub(crate) salt: Vec<u8>,
    pub(crate) verifier: Verifier,
}

/// What the names of users begin with among all configuration.
const PREFIX: &str = "mongo-user:";

impl StoredUser {
    /// Its name among all users.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.user)
    }

    fn to_body(&self) -> Result<Value, MongoError> {
        let roles = self.roles.iter().map(Role::to_document).collect::<Vec<_>>();
        let credentials = self.credentials.iter().map(|credential| {
            let Credential { mechanism, salt, verifier } = credential;
            document! {
                "mechanism" => mechanism.name(),
                "salt" => STANDARD.encode(salt),
                "storedKey" => STANDARD.encode(&verifier.stored_key),
                "serverKey" => STANDARD.encode(&verifier.server_key),
            }
        });
        let credentials = credentials.collect::<Vec<_>>();
        let mut body = document! {
            "user" => self.user.as_str(),
            "db" => self.database.as_str(),
            "id" => STANDARD.encode(self.id),
            "roles" => roles,
            "credentials" => credentials,
        };
        if let Some(data) = &self.custom_data {
            // Its types are not all JSON's.
            let mut bytes = Vec::new();
            bson::write(data, &mut bytes)
                .map_err(|error| MongoError::new(22, format!("customData: {error}")))?;
            body.insert("customData", STANDARD.encode(bytes).into());
        }
        Ok(body.into())
    }

    fn of_body(body: &Value) -> Option<Self> {
        let text = |value: &Value, name| Some(value.field(name)?.as_str()?.to_owned());
        let bytes = |value: &Value, name| STANDARD.decode(value.field(name)?.as_str()?).ok();
        let roles = body.field("roles")?.as_array()?.iter();
        let credentials = body.field("credentials")?.as_array()?.iter().map(|credential| {
            Some(Credential {
                mechanism: Mechanism::named(&text(credential, "mechanism")?)?,
                salt: bytes(credential, "salt")?,
                verifier: Verifier {
                    stored_key: bytes(credential, "storedKey")?,
                    server_key: bytes(credential, "serverKey")?,
                },
            })
        });
        Some(Self {
            user: text(body, "user")?,
            database: text(body, "db")?,
            id: bytes(body, "id")?.try_into().ok()?,
            roles: roles.filter_map(|role| Role::read(role, "")).collect(),
            custom_data: bytes(body, "customData").and_then(|bytes| bson::read(&bytes).ok()),
            credentials: credentials.collect::<Option<Vec<_>>>()?,
        })
    }
}

/// The name under which a user is kept: no name of a resource may have all characters that names
/// of users have.
fn kept_as(user: &str, database: &str) -> String {
    let encode = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{PREFIX}{}:{}", encode(database), encode(user))
}

impl Service {
    fn users_database(&self) -> Option<Arc<Database>> {
        self.engine.catalog().database(ADMIN).cloned()
    }

    fn kept_user(&self, user: &str, database: &str) -> Option<Arc<OpaqueResource>> {
        let owner = OpaqueOwner::Database(self.users_database()?.rid);
        let name = kept_as(user, database);
        self.engine.catalog().opaque(owner, OpaqueKind::Setting, &name).cloned()
    }

    /// A user that a command made.
    pub(crate) fn stored_user(&self, user: &str, database: &str) -> Option<StoredUser> {
        StoredUser::of_body(&self.kept_user(user, database)?.spec.body)
    }

    /// All users that commands made, in the order in which they were.
    pub(crate) fn stored_users(&self) -> Vec<StoredUser> {
        let Some(admin) = self.users_database() else { return Vec::new() };
        let catalog = self.engine.catalog();
        let kept = catalog.opaque_of(OpaqueOwner::Database(admin.rid), OpaqueKind::Setting);
        let kept = kept.filter(|kept| kept.spec.id.starts_with(PREFIX));
        kept.filter_map(|kept| StoredUser::of_body(&kept.spec.body)).collect()
    }

    /// Makes or replaces a user.
    pub(crate) async fn store_user(
        &self,
        ctx: &RequestContext,
        user: &StoredUser,
    ) -> Result<(), MongoError> {
        let admin = match self.users_database() {
            Some(admin) => admin,
            None => match self.engine.create_database(ctx, ADMIN, None).await {
                Ok(created) => created,
                // Another command was faster.
                Err(Error::AlreadyExists { .. }) => {
                    let made = self.users_database();
                    made.ok_or_else(|| MongoError::new(1, "the database of users was dropped"))?
                }
                Err(error) => return Err(error.into()),
            },
        };
        let id = kept_as(&user.user, &user.database);
        let spec = NewOpaque { id, alias: None, body: user.to_body()? };
        let owner = OpaqueOwner::Database(admin.rid);
        self.engine.upsert_opaque(ctx, owner, OpaqueKind::Setting, spec, None).await?;
        Ok(())
    }

    /// Removes a user; false if there was none.
    pub(crate) async fn remove_user(
        &self,
        ctx: &RequestContext,
        user: &str,
        database: &str,
    ) -> Result<bool, MongoError> {
        let Some(kept) = self.kept_user(user, database) else { return Ok(false) };
        self.engine.delete_opaque(ctx, kept.key, None).await?;
        Ok(true)
    }
}
