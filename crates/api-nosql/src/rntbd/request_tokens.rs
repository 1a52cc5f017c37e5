//! The tokens of requests: id, type, name and meaning of each.
//!
//! Tokens without a meaning here belong to the service itself, or say what this server needs not
//! know. Their types are checked all the same.

use super::token::TokenType as T;
use crate::headers::HeaderName;
use Meaning::{Field as F, Header as H, Ignored, Name as N};

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A field of the frame that no header of HTTP has in this form.
    Field(Field),
    /// A name in the address of the request.
    Name(Name),
    /// A header of HTTP, and the form of its value.
    Header(HeaderName, Form),
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    ResourceId,
    PayloadPresent,
    TransportRequestId,
    ReplicaPath,
    /// `if-none-match` of a read, `if-match` of any other operation.
    Match,
    ConsistencyLevel,
    CollectionRid,
    RemainingTime,
}

/// The names of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Database,
    Collection,
    Document,
    User,
    Permission,
    StoredProcedure,
    UserDefinedFunction,
    Trigger,
    Conflict,
    PartitionKeyRange,
    ClientEncryptionKey,
}

/// Number of names.
pub(super) const NAMES: usize = Name::ClientEncryptionKey as usize + 1;

/// How a token's value becomes that of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Boolean,
    Number,
    /// A number of which the largest stands for -1.
    PageSize,
    /// A number that stands for one of the words, which are counted from the first number.
    Word(u8, &'static [&'static str]),
    /// A bound of the hash line: text in hexadecimal, or bytes.
    Bound,
    /// A set of formats, one per bit.
    Formats,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestToken {
    pub id: u16,
    pub kind: T,
    /// The protocol's name, for people.
    #[cfg_attr(not(test), expect(dead_code, reason = "names the row"))]
    pub name: &'static str,
    pub meaning: Meaning,
}

const DIRECTIVE: Form = Form::Word(0, &["Default", "Include", "Exclude"]);
const FORMAT: Form = Form::Word(0, &FORMATS);
const KEY_TYPE: Form =
    Form::Word(1, &["ResourceId", "EffectivePartitionKey", "EffectivePartitionKeyRange"]);
const PREFERENCE: Form = Form::Word(0, &["return=representation", "return=minimal"]);
const PRIORITY: Form = Form::Word(1, &["High", "Low"]);
const STRATEGY: Form = Form::Word(
    1,
    &["Eventual", "Session", "LatestCommitted", "GlobalStrong", "LastCommittedSingleWriteRegion"],
);

/// The formats of bodies, in the order of their bits.
pub(super) const FORMATS: [&str; 3] = ["JsonText", "CosmosBinary", "HybridRow"];

/// The token with this id.
pub(super) fn find(id: u16) -> Option<(usize, &'static RequestToken)> {
    let at = INDEX.get(usize::from(id)).copied().map(usize::from)?;
    REQUEST_TOKENS.get(at).map(|token| (at, token))
}

const fn token(id: u16, kind: T, name: &'static str, meaning: Meaning) -> RequestToken {
    RequestToken { id, kind, name, meaning }
}

/// The row of every id; a number beyond the table for ids without a row.
static INDEX: [u16; IDS] = {
    let mut index = [u16::MAX; IDS];
    let mut at: u16 = 0;
    while (at as usize) < REQUEST_TOKENS.len() {
        index[REQUEST_TOKENS[at as usize].id as usize] = at;
        at += 1;
    }
    index
};

/// One more than the largest id.
const IDS: usize = 0x107;

/// All of them, in the order of their ids.
#[rustfmt::skip]
pub(super) const REQUEST_TOKENS: &[RequestToken] = &[
    token(0x00, T::Bytes, "ResourceId", F(Field::ResourceId)),
    token(0x01, T::String, "AuthorizationToken", H(HeaderName::Authorization, Form::Text)),
    token(0x02, T::Byte, "PayloadPresent", F(Field::PayloadPresent)),
    token(0x03, T::SmallString, "Date", H(HeaderName::XmsDate, Form::Text)),
    token(0x04, T::ULong, "PageSize", H(HeaderName::MaxItemCount, Form::PageSize)),
    token(0x05, T::String, "SessionToken", H(HeaderName::SessionToken, Form::Text)),
    token(0x06, T::String, "ContinuationToken", H(HeaderName::Continuation, Form::Text)),
    token(0x07, T::Byte, "IndexingDirective", H(HeaderName::IndexingDirective, DIRECTIVE)),
    token(0x08, T::String, "Match", F(Field::Match)),
    token(0x09, T::String, "PreTriggerInclude", H(HeaderName::PreTriggerInclude, Form::Text)),
    token(0x0A, T::String, "PostTriggerInclude", H(HeaderName::PostTriggerInclude, Form::Text)),
    token(0x0B, T::Byte, "IsFanout", Ignored),
    token(0x0C, T::ULong, "CollectionPartitionIndex", Ignored),
    token(0x0D, T::ULong, "CollectionServiceIndex", Ignored),
    token(0x0E, T::String, "PreTriggerExclude", Ignored),
    token(0x0F, T::String, "PostTriggerExclude", Ignored),
    token(0x10, T::Byte, "ConsistencyLevel", F(Field::ConsistencyLevel)),
    token(0x11, T::String, "EntityId", Ignored),
    token(0x12, T::SmallString, "ResourceSchemaName", Ignored),
    token(0x13, T::String, "ReplicaPath", F(Field::ReplicaPath)),
    token(0x14, T::ULong, "ResourceTokenExpiry", Ignored),
    token(0x15, T::String, "DatabaseName", N(Name::Database)),
    token(0x16, T::String, "CollectionName", N(Name::Collection)),
    token(0x17, T::String, "DocumentName", N(Name::Document)),
    token(0x18, T::String, "AttachmentName", Ignored),
    token(0x19, T::String, "UserName", N(Name::User)),
    token(0x1A, T::String, "PermissionName", N(Name::Permission)),
    token(0x1B, T::String, "StoredProcedureName", N(Name::StoredProcedure)),
    token(0x1C, T::String, "UserDefinedFunctionName", N(Name::UserDefinedFunction)),
    token(0x1D, T::String, "TriggerName", N(Name::Trigger)),
    token(0x1E, T::Byte, "EnableScanInQuery", H(HeaderName::EnableScan, Form::Boolean)),
    token(0x1F, T::Byte, "EmitVerboseTracesInQuery", Ignored),
    token(0x20, T::String, "ConflictName", N(Name::Conflict)),
    token(0x21, T::String, "BindReplicaDirective", Ignored),
    token(0x22, T::String, "PrimaryMasterKey", Ignored),
    token(0x23, T::String, "SecondaryMasterKey", Ignored),
    token(0x24, T::String, "PrimaryReadonlyKey", Ignored),
    token(0x25, T::String, "SecondaryReadonlyKey", Ignored),
    token(0x26, T::Byte, "ProfileRequest", Ignored),
    token(0x27, T::Byte, "EnableLowPrecisionOrderBy", Ignored),
    token(0x28, T::SmallString, "ClientVersion", H(HeaderName::Version, Form::Text)),
    token(0x29, T::Byte, "CanCharge", Ignored),
    token(0x2A, T::Byte, "CanThrottle", Ignored),
    token(0x2B, T::String, "PartitionKey", H(HeaderName::PartitionKey, Form::Text)),
    token(0x2C, T::String, "PartitionKeyRangeId", H(HeaderName::PartitionKeyRangeId, Form::Text)),
    token(0x31, T::Byte, "MigrateCollectionDirective", Ignored),
    token(0x33, T::Byte, "SupportSpatialLegacyCoordinates", Ignored),
    token(0x34, T::ULong, "PartitionCount", Ignored),
    token(0x35, T::String, "CollectionRid", F(Field::CollectionRid)),
    token(0x36, T::String, "PartitionKeyRangeName", N(Name::PartitionKeyRange)),
    token(0x3A, T::String, "SchemaName", Ignored),
    token(0x3B, T::String, "FilterBySchemaRid", Ignored),
    token(0x3C, T::Byte, "UsePolygonsSmallerThanAHemisphere", Ignored),
    token(0x3D, T::String, "GatewaySignature", Ignored),
    token(0x3E, T::Byte, "EnableLogging", H(HeaderName::EnableScriptLogging, Form::Boolean)),
    token(0x3F, T::String, "A_IM", H(HeaderName::AIm, Form::Text)),
    token(0x40, T::Byte, "PopulateQuotaInfo", H(HeaderName::PopulateQuotaInfo, Form::Boolean)),
    token(0x41, T::Byte, "DisableRUPerMinuteUsage", Ignored),
    token(0x42, T::Byte, "PopulateQueryMetrics", H(HeaderName::PopulateQueryMetrics, Form::Boolean)),
    token(0x43, T::ULong, "ResponseContinuationTokenLimitInKb", H(HeaderName::ContinuationLimitKb, Form::Number)),
    token(0x44, T::Byte, "PopulatePartitionStatistics", H(HeaderName::PopulatePartitionStatistics, Form::Boolean)),
    token(0x45, T::Byte, "RemoteStorageType", Ignored),
    token(0x46, T::String, "CollectionRemoteStorageSecurityIdentifier", Ignored),
    token(0x47, T::String, "IfModifiedSince", H(HeaderName::IfModifiedSince, Form::Text)),
    token(0x48, T::Byte, "PopulateCollectionThroughputInfo", Ignored),
    token(0x49, T::ULong, "RemainingTimeInMsOnClientRequest", F(Field::RemainingTime)),
    token(0x4A, T::ULong, "ClientRetryAttemptCount", Ignored),
    token(0x4B, T::LongLong, "TargetLsn", Ignored),
    token(0x4C, T::LongLong, "TargetGlobalCommittedLsn", Ignored),
    token(0x4D, T::ULong, "TransportRequestID", F(Field::TransportRequestId)),
    token(0x4E, T::String, "RestoreMetadataFilter", Ignored),
    token(0x4F, T::String, "RestoreParams", Ignored),
    token(0x50, T::Byte, "ShareThroughput", Ignored),
    token(0x51, T::String, "PartitionResourceFilter", Ignored),
    token(0x52, T::Byte, "IsReadOnlyScript", Ignored),
    token(0x53, T::Byte, "IsAutoScaleRequest", Ignored),
    token(0x54, T::Byte, "ForceQueryScan", Ignored),
    token(0x56, T::Byte, "CanOfferReplaceComplete", Ignored),
    token(
        0x57,
        T::Byte,
        "ExcludeSystemProperties",
        H(HeaderName::ExcludeSystemProperties, Form::Boolean),
    ),
    token(0x58, T::Bytes, "BinaryId", Ignored),
    token(0x59, T::ULong, "TimeToLiveInSeconds", Ignored),
    token(0x5A, T::Bytes, "EffectivePartitionKey", Ignored),
    token(0x5B, T::Byte, "BinaryPassthroughRequest", Ignored),
    token(0x5C, T::String, "UserDefinedTypeName", Ignored),
    token(0x5D, T::Byte, "EnableDynamicRidRangeAllocation", Ignored),
    token(0x5E, T::Byte, "EnumerationDirection", Ignored),
    token(0x5F, T::Bytes, "StartId", Ignored),
    token(0x60, T::Bytes, "EndId", Ignored),
    token(0x61, T::Byte, "FanoutOperationState", Ignored),
    token(0x62, T::Bytes, "StartEpk", H(HeaderName::StartEpk, Form::Bound)),
    token(0x63, T::Bytes, "EndEpk", H(HeaderName::EndEpk, Form::Bound)),
    token(0x64, T::Byte, "ReadFeedKeyType", H(HeaderName::ReadKeyType, KEY_TYPE)),
    token(0x65, T::Byte, "ContentSerializationFormat", H(HeaderName::SerializationFormats, FORMAT)),
    token(0x66, T::Byte, "AllowTentativeWrites", Ignored),
    token(0x67, T::Byte, "IsUserRequest", Ignored),
    token(0x68, T::ULong, "SharedOfferThroughput", Ignored),
    token(0x69, T::Byte, "PreserveFullContent", Ignored),
    token(0x70, T::Byte, "IncludeTentativeWrites", Ignored),
    token(0x71, T::Byte, "PopulateResourceCount", Ignored),
    token(0x72, T::Bytes, "MergeStaticId", Ignored),
    token(0x73, T::Byte, "IsBatchAtomic", H(HeaderName::BatchAtomic, Form::Boolean)),
    token(0x74, T::Byte, "ShouldBatchContinueOnError", H(HeaderName::BatchContinueOnError, Form::Boolean)),
    token(0x75, T::Byte, "IsBatchOrdered", Ignored),
    token(0x76, T::String, "SchemaOwnerRid", Ignored),
    token(0x77, T::Bytes, "SchemaHash", Ignored),
    token(0x78, T::Byte, "IsRUPerGBEnforcementRequest", Ignored),
    token(0x79, T::ULong, "MaxPollingIntervalMilliseconds", Ignored),
    token(0x7A, T::String, "SnapshotName", Ignored),
    token(0x7B, T::Byte, "PopulateLogStoreInfo", Ignored),
    token(0x7C, T::Byte, "GetAllPartitionKeyStatistics", Ignored),
    token(0x7D, T::Byte, "ForceSideBySideIndexMigration", Ignored),
    token(0x7E, T::Bytes, "CollectionChildResourceNameLimitInBytes", Ignored),
    token(0x7F, T::Bytes, "CollectionChildResourceContentLengthLimitInKB", Ignored),
    token(0x80, T::String, "ClientEncryptionKeyName", N(Name::ClientEncryptionKey)),
    token(0x81, T::LongLong, "MergeCheckpointGLSNKeyName", Ignored),
    token(0x82, T::Byte, "ReturnPreference", H(HeaderName::Prefer, PREFERENCE)),
    token(0x83, T::Byte, "UniqueIndexNameEncodingMode", Ignored),
    token(0x84, T::Byte, "PopulateUnflushedMergeEntryCount", Ignored),
    token(0x85, T::Byte, "MigrateOfferToManualThroughput", Ignored),
    token(0x86, T::Byte, "MigrateOfferToAutopilot", Ignored),
    token(0x87, T::Byte, "IsClientEncrypted", Ignored),
    token(0x88, T::Byte, "SystemDocumentType", Ignored),
    token(0x89, T::Byte, "IsofferStorageRefreshRequest", Ignored),
    token(0x8A, T::String, "ResourceTypes", Ignored),
    token(0x8B, T::Bytes, "TransactionId", Ignored),
    token(0x8C, T::Byte, "TransactionFirstRequest", Ignored),
    token(0x8D, T::Byte, "TransactionCommit", Ignored),
    token(0x8E, T::String, "SystemDocumentName", Ignored),
    token(0x8F, T::ULong, "UpdateMaxThroughputEverProvisioned", Ignored),
    token(0x90, T::Byte, "UniqueIndexReIndexingState", Ignored),
    token(0x91, T::String, "RoleDefinitionName", Ignored),
    token(0x92, T::String, "RoleAssignmentName", Ignored),
    token(0x93, T::Byte, "UseSystemBudget", Ignored),
    token(0x94, T::Byte, "IgnoreSystemLoweringMaxThroughput", Ignored),
    token(0x95, T::Byte, "TruncateMergeLogRequest", Ignored),
    token(0x96, T::Bytes, "RetriableWriteRequestId", Ignored),
    token(0x97, T::Byte, "IsRetriedWriteRequest", Ignored),
    token(0x98, T::ULongLong, "RetriableWriteRequestStartTimestamp", Ignored),
    token(0x99, T::Byte, "AddResourcePropertiesToResponse", Ignored),
    token(0x9A, T::String, "ChangeFeedStartFullFidelityIfNoneMatch", Ignored),
    token(0x9B, T::Byte, "SystemRestoreOperation", Ignored),
    token(0x9C, T::Byte, "SkipRefreshDatabaseAccountConfigs", Ignored),
    token(0x9D, T::String, "IntendedCollectionRid", H(HeaderName::IntendedCollectionRid, Form::Text)),
    token(0x9E, T::Byte, "UseArchivalPartition", Ignored),
    token(0x9F, T::Byte, "PopulateUniqueIndexReIndexProgress", Ignored),
    token(0xA0, T::Long, "CollectionSchemaId", Ignored),
    token(0xA1, T::Byte, "CollectionTruncate", Ignored),
    token(0xA2, T::ULong, "SDKSupportedCapabilities", Ignored),
    token(0xA3, T::Byte, "IsMaterializedViewBuild", Ignored),
    token(0xA4, T::String, "BuilderClientIdentifier", Ignored),
    token(0xA5, T::String, "SourceCollectionIfMatch", Ignored),
    token(0xA6, T::Byte, "RequestedCollectionType", Ignored),
    token(0xA8, T::String, "InteropUserName", Ignored),
    token(0xA9, T::Byte, "PopulateIndexMetrics", H(HeaderName::PopulateIndexMetrics, Form::Boolean)),
    token(0xAA, T::Byte, "PopulateAnalyticalMigrationProgress", Ignored),
    token(0xAB, T::String, "AuthPolicyElementName", Ignored),
    token(0xAC, T::Byte, "ShouldReturnCurrentServerDateTime", Ignored),
    token(0xAD, T::String, "RbacUserId", Ignored),
    token(0xAE, T::String, "RbacAction", Ignored),
    token(0xAF, T::String, "RbacResource", Ignored),
    token(0xB0, T::Guid, "CorrelatedActivityId", Ignored),
    token(0xB1, T::Byte, "IsThroughputCapRequest", Ignored),
    token(0xB2, T::String, "ChangeFeedWireFormatVersion", H(HeaderName::ChangeFeedWireFormat, Form::Text)),
    token(0xB3, T::Byte, "PopulateBYOKEncryptionProgress", Ignored),
    token(0xB4, T::Byte, "UseUserBackgroundBudget", Ignored),
    token(0xB5, T::String, "IncludePhysicalPartitionThroughputInfo", Ignored),
    token(0xB6, T::Byte, "IsServerlessStorageRefreshRequest", Ignored),
    token(0xB7, T::Byte, "UpdateOfferStateToPendingForMerge", Ignored),
    token(0xB8, T::Byte, "PopulateOldestActiveSchemaId", Ignored),
    token(0xB9, T::Byte, "IsInternalServerlessRequest", Ignored),
    token(0xBA, T::Byte, "OfferReplaceRURedistribution", Ignored),
    token(0xBB, T::Byte, "IsCassandraAlterTypeRequest", Ignored),
    token(0xBC, T::Byte, "IsMaterializedViewSourceSchemaReplaceBatchRequest", Ignored),
    token(0xBD, T::Byte, "ForceDatabaseAccountUpdate", Ignored),
    token(0xBE, T::String, "EncryptionScopeName", Ignored),
    token(0xBF, T::Byte, "PriorityLevel", H(HeaderName::PriorityLevel, PRIORITY)),
    token(0xC0, T::String, "AllowRestoreParamsUpdate", Ignored),
    token(0xC1, T::Byte, "PruneCollectionSchemas", Ignored),
    token(0xC2, T::Byte, "PopulateIndexMetricsV2", H(HeaderName::PopulateIndexMetricsV2, Form::Boolean)),
    token(0xC3, T::Byte, "IsMigratedFixedCollection", Ignored),
    token(0xC4, T::Byte, "SupportedSerializationFormats", H(HeaderName::SerializationFormats, Form::Formats)),
    token(0xC5, T::Byte, "UpdateOfferStateToRestorePending", Ignored),
    token(0xC6, T::Byte, "SetMasterResourcesDeletionPending", Ignored),
    token(0xC7, T::Byte, "HighPriorityForcedBackup", Ignored),
    token(0xC8, T::Byte, "OptimisticDirectExecute", H(HeaderName::OptimisticDirectExecute, Form::Boolean)),
    token(0xC9, T::Byte, "PopulateMinGLSNForDocumentOperations", Ignored),
    token(0xCA, T::Byte, "PopulateHighestTentativeWriteLLSN", Ignored),
    token(0xCB, T::Byte, "PopulateCapacityType", Ignored),
    token(0xCC, T::String, "TraceParent", Ignored),
    token(0xCD, T::String, "TraceState", Ignored),
    token(0xCE, T::String, "GlobalDatabaseAccountName", Ignored),
    token(0xCF, T::Byte, "EnableConflictResolutionPolicyUpdate", Ignored),
    token(0xD0, T::String, "ClientIpAddress", Ignored),
    token(0xD1, T::Byte, "IsRequestFromComputeNotAuthorized", Ignored),
    token(0xD2, T::Bytes, "StartEpkHash", Ignored),
    token(0xD3, T::Bytes, "EndEpkHash", Ignored),
    token(0xD4, T::Byte, "AllowDocumentReadsInOfflineRegion", Ignored),
    token(0xD5, T::Byte, "PopulateCurrentPartitionThroughputInfo", Ignored),
    token(0xD6, T::Byte, "PopulateDocumentRecordCount", Ignored),
    token(0xD7, T::Guid, "CosmosGatewayTransactionId", Ignored),
    token(0xD8, T::Byte, "PopulateUserStrings", Ignored),
    token(0xD9, T::Byte, "SkipThroughputCapValidation", Ignored),
    token(0xDA, T::Byte, "PopulateQueryAdvice", H(HeaderName::PopulateQueryAdvice, Form::Boolean)),
    token(0xDB, T::Byte, "ThroughputBucket", H(HeaderName::ThroughputBucket, Form::Number)),
    token(0xDC, T::Byte, "UpdateOfferStateToPendingForThroughputSplit", Ignored),
    token(0xDD, T::Byte, "PopulateBinaryEncodingMigratorProgress", Ignored),
    token(0xDE, T::Byte, "AllowUpdatingIsPhysicalMigrationInProgress", Ignored),
    token(0xDF, T::Byte, "IncludeColdTier", Ignored),
    token(0xE0, T::Byte, "PopulateVectorIndexProgress", Ignored),
    token(0xE1, T::Byte, "PopulateThroughputPoolInfo", Ignored),
    token(0xE2, T::Byte, "RetrieveUserStrings", Ignored),
    token(0xE3, T::Byte, "PopulateVectorIndexAggregateProgress", Ignored),
    token(0xE4, T::Byte, "AllowTopologyUpsertWithoutIntent", Ignored),
    token(0xE5, T::Byte, "ReadGlobalCommittedData", Ignored),
    token(0xE6, T::Byte, "IsSoftDeletionOrRecoveryOperation", Ignored),
    token(0xE7, T::UShort, "WorkloadId", Ignored),
    token(0xE8, T::String, "RegionalDatabaseAccountName", Ignored),
    token(0xE9, T::Byte, "OriginalAuthTokenType", Ignored),
    token(0xEA, T::Byte, "AllowBarrierRequestWhenRWStatusRevoked", Ignored),
    token(0xEB, T::Byte, "PopulateGlobalEpochRecordCount", Ignored),
    token(0xEC, T::Byte, "PopulateCanFailoverManagerAccessDocumentStore", Ignored),
    token(0xED, T::Byte, "IsEmbeddingGeneratorRequest", Ignored),
    token(0xEE, T::Byte, "PopulateGloballyAcceptedFailoverPolicy", Ignored),
    token(0xEF, T::Byte, "ShouldProcessOnlyInHubRegion", Ignored),
    token(0xF0, T::Byte, "BypassSoftDeletionBlocking", Ignored),
    token(0xF1, T::Byte, "IsStrongConsistencyStoreClient", Ignored),
    token(0xF2, T::String, "AzureRbacName", Ignored),
    token(0xF3, T::Byte, "PopulateGlobalStateWriteQuorumRegionsSet", Ignored),
    token(0xF4, T::Byte, "IsRequestIgnoredForAutoscaleReporting", Ignored),
    token(0xF5, T::String, "DtcVersion", Ignored),
    token(0xF6, T::String, "UserAgent", Ignored),
    token(0xF7, T::String, "ContentType", Ignored),
    token(0xF8, T::Guid, "IdempotencyToken", Ignored),
    token(0xF9, T::Byte, "AllowInternalServerlessOfferRead", Ignored),
    token(0xFA, T::LongLong, "HybridLogicalClockTimestamp", Ignored),
    token(0xFB, T::Guid, "DistributedTransactionId", Ignored),
    token(0xFC, T::Byte, "CreatePKRangesWithStatusOffline", Ignored),
    token(0xFD, T::Byte, "IsSoftDeletePurgeOperation", Ignored),
    token(0xFE, T::Byte, "ReadConsistencyStrategy", H(HeaderName::ReadConsistencyStrategy, STRATEGY)),
    token(0xFF, T::String, "SupportedQueryFeatures", H(HeaderName::SupportedQueryFeatures, Form::Text)),
    token(0x100, T::SmallString, "QueryVersion", Ignored),
    token(0x101, T::UShort, "SupportedSerializationFeatures", Ignored),
    token(0x102, T::Byte, "RefreshOnlyFabricServiceLevelConfigs", Ignored),
    token(0x103, T::Byte, "RetriggerDTX", Ignored),
    token(0x104, T::Byte, "ShouldCheckInflightDtx", Ignored),
    token(0x105, T::Byte, "PopulateCachedWriteRegion", Ignored),
    token(0x106, T::Byte, "PopulateEsanMigrationStatus", Ignored),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_unique_and_in_order() {
        assert!(REQUEST_TOKENS.is_sorted_by(|a, b| a.id < b.id));
        let mut names: Vec<_> = REQUEST_TOKENS.iter().map(|token| token.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REQUEST_TOKENS.len());
        for (at, token) in REQUEST_TOKENS.iter().enumerate() {
            assert_eq!(find(token.id).map(|(at, _)| at), Some(at), "{}", token.name);
        }
        assert!(find(0x2D).is_none() && find(0x107).is_none() && find(u16::MAX).is_none());
    }

    #[test]
    fn every_form_fits_its_type() {
        for token in REQUEST_TOKENS {
            let kinds: &[T] = match token.meaning {
                Meaning::Header(_, Form::Text) | Meaning::Name(_) => &[T::String, T::SmallString],
                Meaning::Header(_, Form::Boolean | Form::Word(..) | Form::Formats) => &[T::Byte],
                Meaning::Header(_, Form::Number) => &[T::Byte, T::ULong],
                Meaning::Header(_, Form::PageSize) => &[T::ULong],
                Meaning::Header(_, Form::Bound) => &[T::Bytes],
                Meaning::Field(_) | Ignored => continue,
            };
            assert!(kinds.contains(&token.kind), "{}", token.name);
        }
    }

    #[test]
    fn a_header_has_one_token() {
        let mut headers: Vec<_> = REQUEST_TOKENS
            .iter()
            .filter_map(|token| match token.meaning {
                Meaning::Header(header, _) => Some(header.as_str()),
                Meaning::Field(_) | Meaning::Name(_) | Ignored => None,
            })
            .collect();
        headers.sort_unstable();
        let mut twice = headers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        // Two tokens name the formats that the client reads.
        assert_eq!(twice.next(), Some(HeaderName::SerializationFormats.as_str()));
        assert_eq!(twice.next(), None);
    }
}
