"""The Table API: keys, signatures that grant a part, policies and properties of the service."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableSasPermissions,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)

from support import collect, done
from tables import entity, keys, put_all, refused_table


@pytest.fixture
def soon():
    return datetime.now(timezone.utc) + timedelta(minutes=10)


async def test_wrong_keys_are_refused(tables, table):
    wrong = AzureNamedKeyCredential(tables.credential.named_key.name, "d3Jvbmc=")
    other = tables.connect(wrong)
    with pytest.raises(ClientAuthenticationError) as caught:
        await done(other.create_table("never"))
    assert caught.value.status_code == 403
    assert caught.value.error_code == "AuthenticationFailed"
    await done(other.close())


async def test_an_account_signature(tables, table, soon):
    token = generate_account_sas(
        tables.credential, ResourceTypes(object=True), AccountSasPermissions(read=True, add=True), expiry=soon
    )
    granted = tables.connect(AzureSasCredential(token))
    client = granted.get_table_client(table.table_name)
    await done(client.create_entity(entity(n=1)))
    assert (await done(client.get_entity("p", "r")))["n"] == 1
    with refused_table(403, "AuthorizationPermissionMismatch" if tables.is_storage else "Forbidden"):
        await done(client.upsert_entity(entity(n=2)))
    with refused_table(403, "AuthorizationResourceTypeMismatch"):
        await done(granted.create_table("never"))
    await done(granted.close())


async def test_a_table_signature_with_a_range(tables, table, soon):
    await put_all(table, [entity(r, p) for p in "abc" for r in "123"])
    token = generate_table_sas(
        tables.credential,
        table.table_name,
        permission=TableSasPermissions(read=True, add=True, update=True, delete=True),
        expiry=soon,
        start_pk="a",
        start_rk="2",
        end_pk="b",
        end_rk="2",
    )
    granted = tables.connect(AzureSasCredential(token))
    client = granted.get_table_client(table.table_name)
    inside = [("a", "2"), ("a", "3"), ("b", "1"), ("b", "2")]
    assert keys(await collect(client.list_entities())) == inside
    assert keys(await collect(client.query_entities("RowKey ne '1'"))) == [pair for pair in inside if pair[1] != "1"]
    await done(client.upsert_entity(entity("25", "a")))
    for outside in (("a", "1"), ("b", "3"), ("c", "1")):
        with refused_table(403):
            await done(client.get_entity(*outside))
        with refused_table(403):
            await done(client.upsert_entity(entity(outside[1], outside[0])))
    await done(client.submit_transaction([("upsert", entity("26", "a")), ("delete", entity("25", "a"))]))
    with pytest.raises(Exception) as caught:
        await done(client.submit_transaction([("upsert", entity("1", "a"))]))
    assert caught.value.status_code == 403
    await done(granted.close())


async def test_an_expired_signature(tables, table):
    past = datetime.now(timezone.utc) - timedelta(minutes=1)
    token = generate_table_sas(
        tables.credential, table.table_name, permission=TableSasPermissions(read=True), expiry=past
    )
    granted = tables.connect(AzureSasCredential(token))
    with refused_table(403, "AuthenticationFailed"):
        await collect(granted.get_table_client(table.table_name).list_entities())
    await done(granted.close())


async def test_stored_policies(tables, table, soon):
    if not tables.is_storage:
        with refused_table(501):
            await done(table.get_table_access_policy(retry_total=0))
        return
    await done(table.create_entity(entity()))
    await done(table.set_table_access_policy({"reader": TableAccessPolicy(expiry=soon, permission="r"), "bare": None}))
    policies = await done(table.get_table_access_policy())
    assert policies["reader"].permission == "r" and policies["bare"] is None
    token = generate_table_sas(tables.credential, table.table_name, policy_id="reader")
    granted = tables.connect(AzureSasCredential(token))
    client = granted.get_table_client(table.table_name)
    assert len(await collect(client.list_entities())) == 1
    with refused_table(403):
        await done(client.upsert_entity(entity(), mode=UpdateMode.MERGE))
    await done(table.set_table_access_policy({}))
    with refused_table(403):
        await collect(client.list_entities())
    await done(granted.close())


async def test_service_properties(tables, table_service):
    if not tables.is_storage:
        with refused_table(501):
            await done(table_service.get_service_properties(retry_total=0))
        return
    retention = TableRetentionPolicy(enabled=True, days=5)
    logging = TableAnalyticsLogging(read=True, write=False, delete=True, retention_policy=retention)
    metrics = TableMetrics(enabled=True, include_apis=True, retention_policy=retention)
    rule = TableCorsRule(["http://localhost", "*"], ["GET", "PUT"], max_age_in_seconds=500)
    await done(
        table_service.set_service_properties(
            analytics_logging=logging, hour_metrics=metrics, minute_metrics=metrics, cors=[rule]
        )
    )
    found = await done(table_service.get_service_properties())
    assert found["analytics_logging"].read and not found["analytics_logging"].write
    assert found["hour_metrics"].include_apis and found["hour_metrics"].retention_policy.days == 5
    assert found["cors"][0].allowed_methods == ["GET", "PUT"]
    await done(table_service.set_service_properties(cors=[]))
    found = await done(table_service.get_service_properties())
    assert found["cors"] == [] and found["analytics_logging"].read
    off = TableRetentionPolicy(enabled=False)
    await done(
        table_service.set_service_properties(
            analytics_logging=TableAnalyticsLogging(retention_policy=off),
            hour_metrics=TableMetrics(enabled=False, retention_policy=off),
            minute_metrics=TableMetrics(enabled=False, retention_policy=off),
        )
    )
