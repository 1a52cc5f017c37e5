"""Conflicts: a single region has none, and says so in every form it is asked."""

import pytest

from support import collect, cross_partition, done, refused


async def test_the_feed_is_empty(container):
    await done(container.create_item({"id": "1", "pk": "a"}))
    assert await collect(container.list_conflicts()) == []
    query = "SELECT * FROM root r WHERE r.resourceType = 'document'"
    assert await collect(container.query_conflicts(query, **cross_partition(container))) == []


async def test_there_is_nothing_to_read_or_delete(container):
    with refused(404):
        await done(container.get_conflict("none", "a"))
    with refused(404):
        await done(container.delete_conflict("none", "a"))


POLICIES = {
    "path": {"mode": "LastWriterWins", "conflictResolutionPath": "/when"},
    "procedure": {"mode": "Custom", "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/resolver"},
    "feed": {"mode": "Custom"},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_every_way_to_resolve_them_is_kept(make_container, policy):
    container = await make_container(conflict_resolution_policy=policy)
    kept = (await done(container.read()))["conflictResolutionPolicy"]
    assert {name: kept[name] for name in policy} == policy
    assert await collect(container.list_conflicts()) == []


async def test_a_query_says_that_it_means_all_partitions(container):
    query = "SELECT * FROM root r WHERE r.resourceType = 'document'"
    assert await collect(container.query_conflicts(query, partition_key="a")) == []
    if cross_partition(container):
        with refused(400, text="Cross partition query is required but disabled"):
            await collect(container.query_conflicts(query))
