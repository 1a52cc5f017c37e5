//! The table of commands: their names, fields, and what a caller needs to run them. The parser,
//! `listCommands` and the documents read it.

pub(crate) mod aggregate;
pub(crate) mod collections;
pub(crate) mod delete;
pub(crate) mod diagnostics;
pub(crate) mod fail_point;
pub(crate) mod find;
pub(crate) mod hello;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod login;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod update;
pub(crate) mod users;
mod write_concern;

use crate::fields::{Field, Types, field, required};

/// A command.
#[derive(Debug)]
pub(crate) struct Row {
    /// Which one it is.
    pub(crate) kind: Kind,
    /// Its name.
    pub(crate) name: &'static str,
    /// Its other names.
    pub(crate) aliases: &'static [&'static str],
    /// The fields it has beside those that all have.
    pub(crate) fields: &'static [Field],
    /// What a caller must be allowed.
    pub(crate) access: Access,
    /// Whether it is sent to the database `admin` only.
    pub(crate) is_for_admin: bool,
    /// Whether it is part of the stable API.
    pub(crate) is_stable: bool,
    /// Whether the names of its further fields are arguments.
    pub(crate) takes_any_field: bool,
    /// What it does.
    pub(crate) help: &'static str,
}

/// What a command needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Anyone,
    /// A caller that is known.
    Known,
    /// To read the database.
    Read,
    /// To write the database.
    Write,
    /// To change collections and indexes of the database.
    Define,
    /// To manage the users of the database.
    Users,
    /// To see how the server does.
    Monitor,
    /// To change how the server works.
    Operate,
}

const ANY: Types = Types::ANY;
const NUMBER: Types = Types::NUMBER;
const BOOL: Types = Types::BOOL;
const STRING: Types = Types::STRING;
const OBJECT: Types = Types::OBJECT;
const ARRAY: Types = Types::ARRAY;
const BINARY: Types = Types::BINARY;

/// The fields of a greeting.
const GREETING: &[Field] = &[
    field("helloOk", BOOL),
    field("client", OBJECT),
    field("compression", ARRAY),
    field("saslSupportedMechs", STRING),
    field("speculativeAuthenticate", OBJECT),
    field("loadBalanced", BOOL),
    field("topologyVersion", OBJECT),
    field("maxAwaitTimeMS", NUMBER),
    field("hostInfo", STRING),
    field("internalClient", OBJECT),
    field("backpressure", ANY),
    field("hangUpOnStepDown", BOOL),
    field("forShell", BOOL),
];

/// The fields with which a user is made or changed.
const USER: &[Field] = &[
    field("pwd", STRING),
    field("customData", OBJECT),
    field("roles", ARRAY),
    field("digestPassword", BOOL),
    field("mechanisms", ARRAY),
    field("authenticationRestrictions", ARRAY),
];

macro_rules! rows {
    ($($kind:ident $name:literal $(| $alias:literal)* , $access:ident $(, $flag:ident)* => $fields:expr, $help:literal;)*) => {
        /// The commands, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = $help] $kind),*
        }

        /// All commands.
        pub(crate) static COMMANDS: &[Row] = &[$(Row {
            kind: Kind::$kind,
            name: $name,
            aliases: &[$($alias),*],
            fields: $fields,
            access: Access::$access,
            is_for_admin: rows!(@ ADMIN $($flag)*),
            is_stable: rows!(@ STABLE $($flag)*),
            takes_any_field: rows!(@ OPEN $($flag)*),
            help: $help,
        }),*];
    };
    (@ ADMIN ADMIN $($rest:ident)*) => { true };
    (@ STABLE STABLE $($rest:ident)*) => { true };
    (@ OPEN OPEN $($rest:ident)*) => { true };
    (@ $flag:ident $other:ident $($rest:ident)*) => { rows!(@ $flag $($rest)*) };
    (@ $flag:ident) => { false };
}

rows! {
    Hello "hello", Anyone, STABLE => GREETING, "greets the server and asks what it is";
    IsMaster "isMaster" | "ismaster", Anyone => GREETING, "greets the server, in the old form";
    Ping "ping", Anyone, STABLE => &[], "does nothing";
    BuildInfo "buildInfo" | "buildinfo", Anyone => &[], "tells the version";
    WhatsMyUri "whatsmyuri", Anyone => &[], "tells the client's address";
    GetNonce "getnonce", Anyone => &[], "gives a random number";
    SaslStart "saslStart", Anyone, STABLE => &[
        required("mechanism", STRING),
        required("payload", BINARY.or(STRING)),
        field("autoAuthorize", ANY),
        field("options", OBJECT),
        field("db", STRING),
    ], "begins to log in";
    SaslContinue "saslContinue", Anyone, STABLE => &[
        required("conversationId", NUMBER),
        required("payload", BINARY.or(STRING)),
    ], "goes on logging in";
    Authenticate "authenticate", Anyone, STABLE => &[
        field("mechanism", STRING),
        field("user", STRING),
        field("db", STRING),
    ], "logs in with a certificate, which is not supported";
    Logout "logout", Anyone => &[], "forgets who the client is";
    ConnectionStatus "connectionStatus", Anyone => &[
        field("showPrivileges", BOOL),
    ], "tells who the client is";
    EndSessions "endSessions", Anyone, STABLE => &[], "ends sessions";
    StartSession "startSession", Known => &[], "begins a session";
    RefreshSessions "refreshSessions", Known, STABLE => &[], "keeps sessions from expiring";
    KillSessions "killSessions", Known, STABLE => &[], "ends sessions and their cursors";
    KillAllSessions "killAllSessions", Operate => &[], "ends all sessions of users";
    KillAllSessionsByPattern "killAllSessionsByPattern", Operate => &[], "ends sessions by pattern";
    HostInfo "hostInfo" | "hostinfo", Monitor => &[], "describes the machine";
    GetCmdLineOpts "getCmdLineOpts", Monitor, ADMIN => &[], "tells how the server was started";
    GetParameter "getParameter", Monitor, ADMIN, OPEN => &[], "tells settings";
    ServerStatus "serverStatus", Monitor, OPEN => &[], "tells how the server does";
    GetLog "getLog", Monitor, ADMIN => &[], "gives recent log lines";
    ListCommands "listCommands", Anyone => &[], "lists the commands";
    IsDbGrid "isdbgrid", Anyone => &[], "tells whether the server is a router";
    GetDefaultRwConcern "getDefaultRWConcern", Monitor, ADMIN => &[
        field("inMemory", BOOL),
    ], "tells the default read and write concern";
    CreateUser "createUser", Users => USER, "makes a user";
    UpdateUser "updateUser", Users => USER, "changes a user";
    DropUser "dropUser", Users => &[], "removes a user";
    DropAllUsersFromDatabase "dropAllUsersFromDatabase", Users => &[], "removes a database's users";
    GrantRolesToUser "grantRolesToUser", Users => &[required("roles", ARRAY)], "adds roles";
    RevokeRolesFromUser "revokeRolesFromUser", Users => &[required("roles", ARRAY)], "removes roles";
    UsersInfo "usersInfo", Known => &[
        field("showCredentials", BOOL),
        field("showCustomData", BOOL),
        field("showPrivileges", BOOL),
        field("showAuthenticationRestrictions", BOOL),
        field("filter", OBJECT),
    ], "describes users";
    Insert "insert", Write, STABLE => &[
        required("documents", ARRAY),
        field("ordered", BOOL),
        field("bypassDocumentValidation", BOOL),
    ], "inserts documents";
    Find "find", Read, STABLE => &[
        field("filter", OBJECT),
        field("sort", OBJECT),
        field("projection", OBJECT),
        field("hint", STRING.or(OBJECT)),
        field("skip", NUMBER),
        field("limit", NUMBER),
        field("batchSize", NUMBER),
        field("singleBatch", BOOL),
        field("max", OBJECT),
        field("min", OBJECT),
        field("returnKey", BOOL),
        field("showRecordId", BOOL),
        field("tailable", BOOL),
        field("awaitData", BOOL),
        field("oplogReplay", BOOL),
        field("noCursorTimeout", BOOL),
        field("allowPartialResults", BOOL),
        field("collation", OBJECT),
        field("allowDiskUse", BOOL),
        field("let", OBJECT),
    ], "finds documents";
    GetMore "getMore", Read, STABLE => &[
        required("collection", STRING),
        field("batchSize", NUMBER),
    ], "reads on from a cursor";
    KillCursors "killCursors", Read, STABLE => &[
        required("cursors", ARRAY),
    ], "closes cursors";
    Update "update", Write, STABLE => &[
        required("updates", ARRAY),
        field("ordered", BOOL),
        field("bypassDocumentValidation", BOOL),
        field("let", OBJECT),
    ], "changes documents";
    Delete "delete", Write, STABLE => &[
        required("deletes", ARRAY),
        field("ordered", BOOL),
        field("let", OBJECT),
    ], "removes documents";
    FindAndModify "findAndModify" | "findandmodify", Write, STABLE => &[
        field("query", OBJECT),
        field("sort", OBJECT),
        field("remove", BOOL),
        field("update", OBJECT.or(ARRAY)),
        field("new", BOOL),
        field("fields", OBJECT),
        field("upsert", BOOL),
        field("bypassDocumentValidation", BOOL),
        field("arrayFilters", ARRAY),
        field("hint", STRING.or(OBJECT)),
        field("collation", OBJECT),
        field("let", OBJECT),
    ], "changes or removes a document and gives it";
    Aggregate "aggregate", Read, STABLE => &[
        required("pipeline", ARRAY),
        field("cursor", OBJECT),
        field("explain", BOOL),
        field("allowDiskUse", BOOL),
        field("bypassDocumentValidation", BOOL),
        field("collation", OBJECT),
        field("hint", STRING.or(OBJECT)),
        field("let", OBJECT),
    ], "computes documents by stages";
    Count "count", Read, STABLE => &[
        field("query", OBJECT),
        field("limit", NUMBER),
        field("skip", NUMBER),
        field("hint", STRING.or(OBJECT)),
        field("collation", OBJECT),
        field("fields", OBJECT),
    ], "counts documents";
    Distinct "distinct", Read => &[
        required("key", STRING),
        field("query", OBJECT),
        field("collation", OBJECT),
        field("hint", STRING.or(OBJECT)),
    ], "gives the values of a field";
    Create "create", Define, STABLE => &[
        field("capped", BOOL),
        field("size", NUMBER),
        field("max", NUMBER),
        field("autoIndexId", BOOL),
        field("idIndex", OBJECT),
        field("viewOn", STRING),
        field("pipeline", ARRAY),
        field("collation", OBJECT),
        field("validator", OBJECT),
        field("validationLevel", STRING),
        field("validationAction", STRING),
        field("storageEngine", OBJECT),
        field("indexOptionDefaults", OBJECT),
        field("timeseries", OBJECT),
        field("expireAfterSeconds", NUMBER.or(STRING)),
        field("clusteredIndex", OBJECT.or(BOOL)),
        field("changeStreamPreAndPostImages", OBJECT),
        field("encryptedFields", OBJECT),
    ], "makes a collection";
    Drop "drop", Define, STABLE => &[], "removes a collection";
    DropDatabase "dropDatabase", Define, STABLE => &[], "removes a database";
    ListDatabases "listDatabases", Known, ADMIN, STABLE => &[
        field("filter", OBJECT),
        field("nameOnly", BOOL),
        field("authorizedDatabases", BOOL),
    ], "lists databases";
    ListCollections "listCollections", Read, STABLE => &[
        field("filter", OBJECT),
        field("nameOnly", BOOL),
        field("authorizedCollections", BOOL),
        field("cursor", OBJECT),
    ], "lists collections";
    ListIndexes "listIndexes", Read, STABLE => &[
        field("cursor", OBJECT),
    ], "lists the indexes of a collection";
    CreateIndexes "createIndexes", Define, STABLE => &[
        required("indexes", ARRAY),
        field("commitQuorum", ANY),
        field("ignoreUnknownIndexOptions", BOOL),
    ], "makes indexes";
    DropIndexes "dropIndexes", Define, STABLE => &[
        required("index", ANY),
    ], "removes indexes";
    CollStats "collStats" | "collstats", Read => &[
        field("scale", NUMBER),
    ], "tells the size of a collection";
    DbStats "dbStats" | "dbstats", Read => &[
        field("scale", NUMBER),
        field("freeStorage", NUMBER),
    ], "tells the size of a database";
    LastRequestStatistics "getLastRequestStatistics" | "GetLastRequestStatistics", Known => &[],
        "tells what the last command took";
    ConfigureFailPoint "configureFailPoint", Operate, ADMIN => &[
        required("mode", STRING.or(OBJECT)),
        field("data", OBJECT),
    ], "lets commands fail, for tests";
}

/// Commands of MongoDB's servers that are known and not supported.
pub(crate) static UNSUPPORTED: &[&str] = &[
    "explain",
    "collMod",
    "renameCollection",
    "shardCollection",
    "enableSharding",
    "commitTransaction",
    "abortTransaction",
    "mapReduce",
    "mapreduce",
    "createRole",
    "dropRole",
    "updateRole",
    "grantPrivilegesToRole",
    "grantRolesToRole",
    "revokePrivilegesFromRole",
    "revokeRolesFromRole",
    "addShard",
    "removeShard",
    "moveChunk",
    "movePrimary",
    "split",
    "mergeChunks",
    "balancerStart",
    "balancerStop",
    "reshardCollection",
    "unshardCollection",
    "createSearchIndexes",
    "updateSearchIndex",
    "dropSearchIndex",
    "listSearchIndexes",
    "cloneCollectionAsCapped",
    "convertToCapped",
    "setFeatureCompatibilityVersion",
    "setParameter",
    "profile",
    "shutdown",
    "fsync",
    "logRotate",
    "applyOps",
];

/// The command with this name.
pub(crate) fn named(name: &str) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.name == name || row.aliases.contains(&name))
}

impl Row {
    /// Its place in the table.
    pub(crate) fn index(&self) -> usize {
        self.kind as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_rows_are_where_they_say() {
        let names = COMMANDS.iter().flat_map(|row| row.aliases.iter().chain([&row.name]));
        let names = names.chain(UNSUPPORTED).collect::<Vec<_>>();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (at, row) in COMMANDS.iter().enumerate() {
            assert_eq!(row.index(), at);
            let fields = row.fields.iter().chain(crate::fields::COMMON);
            let fields = fields.map(|field| field.name).collect::<Vec<_>>();
            let unique = fields.iter().collect::<BTreeSet<_>>().len();
            assert_eq!(unique, fields.len(), "{}", row.name);
        }
        assert!(named("ismaster").is_some_and(|row| row.name == "isMaster"));
        assert!(named("Ping").is_none() && named("mapReduce").is_none());
    }
}
