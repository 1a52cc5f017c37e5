"""Headers that clients rely on, on success and on errors."""

import time

import pytest
from azure.core import MatchConditions

from support import KEY_PK, collect, done, refused

ON_ITEMS = [
    "x-ms-activity-id",
    "x-ms-request-charge",
    "x-ms-session-token",
    "x-ms-alt-content-path",
    "x-ms-content-path",
    "x-ms-documentdb-partitionkeyrangeid",
    "x-ms-request-duration-ms",
    "lsn",
    "x-ms-item-lsn",
    "x-ms-serviceversion",
    "etag",
]
ON_ERRORS = ["x-ms-activity-id", "x-ms-request-charge", "x-ms-session-token", "x-ms-alt-content-path", "lsn"]


def assert_present(headers, names):
    missing = [name for name in names if not headers.get(name)]
    assert not missing, missing


async def test_item_operations_carry_the_common_headers(database, container):
    item = {"id": "1", "pk": "a"}
    answers = [
        await done(container.create_item(item)),
        await done(container.read_item("1", "a")),
        await done(container.replace_item("1", item)),
        await done(container.upsert_item(item)),
        await done(container.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 1}])),
    ]
    rid = (await done(container.read()))["_rid"]
    for answer in answers:
        headers = answer.get_response_headers()
        assert_present(headers, ON_ITEMS)
        assert headers["x-ms-alt-content-path"] == f"dbs/{database.id}/colls/{container.id}"
        assert headers["x-ms-content-path"] == rid
        assert headers["etag"] == answer["_etag"]
        assert headers["content-type"].startswith("application/json")


async def test_errors_carry_the_common_headers(container):
    written = await done(container.create_item({"id": "1", "pk": "a"}))
    await done(container.replace_item("1", {"id": "1", "pk": "a", "n": 2}))
    with refused(404) as missing:
        await done(container.read_item("2", "a"))
    with refused(409) as conflict:
        await done(container.create_item({"id": "1", "pk": "a"}))
    with refused(412) as stale:
        condition = {"etag": written["_etag"], "match_condition": MatchConditions.IfNotModified}
        await done(container.replace_item("1", {"id": "1", "pk": "a"}, **condition))
    for refusal in (missing, conflict, stale):
        assert_present(refusal.headers, ON_ERRORS)
        assert float(refusal.headers["x-ms-request-charge"]) > 0


async def test_activity_id_is_echoed(container):
    sent = {}

    def remember(request):
        sent["id"] = request.http_request.headers["x-ms-activity-id"]

    created = await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=remember))
    assert created.get_response_headers()["x-ms-activity-id"] == sent["id"]


INVALID = {
    "consistency": ("x-ms-consistency-level", "Sometimes"),
    "stronger-consistency": ("x-ms-consistency-level", "Strong"),
    "indexing-directive": ("x-ms-indexing-directive", "Perhaps"),
    "priority": ("x-ms-cosmos-priority-level", "Medium"),
    "bucket": ("x-ms-cosmos-throughput-bucket", "-1"),
    "old-version": ("x-ms-version", "2015-01-01"),
    "session-token": ("x-ms-session-token", "garbage"),
}


@pytest.mark.parametrize("name, value", INVALID.values(), ids=INVALID)
async def test_invalid_header_values_are_refused(container, name, value):
    await done(container.create_item({"id": "1", "pk": "a"}))

    def spoil(request):
        request.http_request.headers[name] = value

    with refused(400):
        await done(container.read_item("1", "a", raw_request_hook=spoil))


@pytest.mark.parametrize("bucket", range(1, 6))
async def test_every_throughput_bucket_is_accepted(container, bucket):
    await done(container.create_item({"id": "1", "pk": "a"}, throughput_bucket=bucket))
    assert (await done(container.read_item("1", "a", throughput_bucket=bucket)))["id"] == "1"
    assert len(await collect(container.query_items("SELECT * FROM c", partition_key="a", throughput_bucket=bucket))) == 1


async def test_progress_of_a_new_indexing_policy_is_told(database, container):
    for number in range(20):
        await done(container.create_item({"id": str(number), "pk": "a"}))
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/n/?"}], "excludedPaths": [{"path": "/*"}]}
    await done(database.replace_container(container, KEY_PK, indexing_policy=policy))
    deadline = time.monotonic() + 20
    while True:
        described = await done(container.read(populate_quota_info=True))
        headers = described.get_response_headers()
        progress = int(headers["x-ms-documentdb-collection-index-transformation-progress"])
        assert 0 <= progress <= 100
        assert "x-ms-documentdb-collection-lazy-indexing-progress" not in headers
        if progress == 100:
            break
        assert time.monotonic() < deadline


async def test_unknown_headers_are_ignored(container):
    def extra(request):
        request.http_request.headers["x-ms-cosmos-unheard-of"] = "1"

    await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=extra))
    assert len(await collect(container.read_all_items())) == 1


async def test_weaker_consistency_is_accepted(account, database, container):
    await done(container.create_item({"id": "1", "pk": "a"}))
    eventual = account.client(consistency_level="Eventual")
    there = eventual.get_database_client(database.id).get_container_client(container.id)
    assert (await done(there.read_item("1", "a")))["id"] == "1"
    await done(eventual.close())
