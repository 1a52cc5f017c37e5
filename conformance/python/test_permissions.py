"""Users, permissions, and clients that have nothing but resource tokens."""

import inspect

import pytest

from support import collect, done, new_id, refused


@pytest.fixture
async def user(database):
    return await done(database.create_user({"id": new_id("u")}))


def link_of(database, container):
    return f"dbs/{database.id}/colls/{container.id}"


async def permit(user, mode, resource, **more):
    body = {"id": new_id("p"), "permissionMode": mode, "resource": resource, **more}
    return await done(user.create_permission(body))


class Holder:
    """A client that has only resource tokens."""

    def __init__(self, account, database, tokens):
        self.client = account.client(tokens)
        self.database = self.client.get_database_client(database.id)

    def container(self, container):
        return self.database.get_container_client(container.id)

    async def close(self):
        await done(self.client.close())


@pytest.fixture
async def holder(account, database):
    made = []

    def make(tokens):
        made.append(Holder(account, database, tokens))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_users_are_made_replaced_found_and_deleted(database):
    name, other = new_id("u"), new_id("u")
    user = await done(database.create_user({"id": name}))
    with refused(409):
        await done(database.create_user({"id": name}))
    assert (await done(database.get_user_client(name).read()))["_permissions"] == "permissions/"
    await done(database.replace_user(name, {"id": other}))
    with refused(404):
        await done(database.get_user_client(name).read())
    await done(database.upsert_user({"id": other}))
    found = await collect(
        database.query_users("SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": other}])
    )
    assert [one["id"] for one in found] == [other]
    assert other in [one["id"] for one in await collect(database.list_users())]
    await done(database.delete_user(other))
    assert other not in [one["id"] for one in await collect(database.list_users())]
    assert user.id == name


async def test_permissions_are_made_replaced_found_and_deleted(database, container, user):
    link = link_of(database, container)
    made = await permit(user, "Read", link, resourcePartitionKey=["a"])
    assert (made.permission_mode, made.resource_link) == ("Read", link)
    assert made.properties["resourcePartitionKey"] == ["a"]
    assert made.properties["_token"].startswith("type=resource&ver=1")
    with refused(409):
        await permit(user, "All", link, resourcePartitionKey=["a"])
    body = {**made.properties, "permissionMode": "All"}
    replaced = await done(user.replace_permission(made.id, body))
    assert replaced.permission_mode == "All"
    assert replaced.properties["_token"] != made.properties["_token"]
    assert [one["id"] for one in await collect(user.list_permissions())] == [made.id]
    found = await collect(
        user.query_permissions("SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": made.id}])
    )
    assert found[0]["_token"]
    await done(user.delete_permission(made.id))
    with refused(404):
        await done(user.get_permission(made.id))


async def test_a_token_of_a_container_to_read(database, container, user, holder):
    await done(container.create_item({"id": "1", "pk": "a"}))
    link = link_of(database, container)
    there = holder({link: (await permit(user, "Read", link)).properties["_token"]}).container(container)
    assert (await done(there.read()))["id"] == container.id
    assert (await done(there.read_item("1", "a")))["id"] == "1"
    assert len(await collect(there.read_all_items())) == 1
    assert len(await collect(there.query_items("SELECT * FROM c", partition_key="a"))) == 1
    for attempt in (
        lambda: there.create_item({"id": "2", "pk": "a"}),
        lambda: there.upsert_item({"id": "1", "pk": "a"}),
        lambda: there.replace_item("1", {"id": "1", "pk": "a"}),
        lambda: there.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 1}]),
        lambda: there.delete_item("1", "a"),
        lambda: there.execute_item_batch([("create", ({"id": "2", "pk": "a"},))], "a"),
        lambda: there.delete_all_items_by_partition_key("a"),
    ):
        with refused(403, text="Insufficient permissions"):
            await done(attempt())


async def test_a_token_of_one_key_reads_and_writes_just_that(database, container, user, holder):
    for key in ("a", "b"):
        await done(container.create_item({"id": "1", "pk": key}))
    link = link_of(database, container)
    permission = await permit(user, "All", link, resourcePartitionKey=["a"])
    there = holder({link: permission.properties["_token"]}).container(container)
    await done(there.create_item({"id": "2", "pk": "a"}))
    await done(there.upsert_item({"id": "2", "pk": "a", "n": 1}))
    assert (await done(there.read_item("2", "a")))["n"] == 1
    await done(there.patch_item("2", "a", [{"op": "incr", "path": "/n", "value": 1}]))
    await done(there.execute_item_batch([("create", ({"id": "3", "pk": "a"},))], "a"))
    found = await collect(there.query_items("SELECT VALUE c.id FROM c ORDER BY c.id", partition_key="a"))
    assert found == ["1", "2", "3"]
    changes = await collect(there.query_items_change_feed(partition_key="a", start_time="Beginning"))
    assert sorted(change["id"] for change in changes) == ["1", "2", "3"]
    await done(there.delete_item("3", "a"))
    for attempt in (
        lambda: there.create_item({"id": "2", "pk": "b"}),
        lambda: there.read_item("1", "b"),
        lambda: there.replace_item("1", {"id": "1", "pk": "b"}),
        lambda: there.delete_item("1", "b"),
        lambda: there.execute_item_batch([("read", ("1",))], "b"),
        lambda: collect(there.query_items("SELECT * FROM c", partition_key="b")),
        lambda: collect(there.query_items_change_feed(partition_key="b", start_time="Beginning")),
        lambda: collect(there.query_items_change_feed(start_time="Beginning")),
        lambda: collect(there.read_all_items()),
    ):
        with refused(403):
            await done(attempt())
    assert (await done(container.read_item("1", "b")))["id"] == "1"


async def test_a_token_of_an_item(database, container, user, holder):
    for item in ("1", "2"):
        await done(container.create_item({"id": item, "pk": "a"}))
    link = f"{link_of(database, container)}/docs/1"
    permission = await permit(user, "All", link, resourcePartitionKey=["a"])
    there = holder({link: permission.properties["_token"]}).container(container)
    assert (await done(there.read_item("1", "a")))["id"] == "1"
    await done(there.replace_item("1", {"id": "1", "pk": "a", "n": 1}))
    # Neither an id that is taken nor one that is free: that there is a difference would tell.
    for other in ("2", "3"):
        with refused(403, text="Insufficient permissions"):
            await done(there.replace_item("1", {"id": other, "pk": "a"}))
    assert (await done(there.read_item("1", "a")))["n"] == 1
    await done(there.delete_item("1", "a"))
    with refused(403):
        await done(there.read_item("2", "a"))
    with refused(403):
        await done(there.create_item({"id": "1", "pk": "a"}))


async def test_a_token_ends_with_its_permission(database, container, user, holder):
    link = link_of(database, container)
    permission = await permit(user, "Read", link)
    one = holder({link: permission.properties["_token"]})
    await done(one.container(container).read())
    await done(user.delete_permission(permission.id))
    with refused(401):
        await done(one.container(container).read())
    with refused(401):
        await done(one.database.read())


async def test_a_token_of_a_procedure_runs_it(database, container, user, holder):
    body = "function (text) { getContext().getResponse().setBody('ran ' + text); }"
    for name in ("granted", "other"):
        await done(container.scripts.create_stored_procedure({"id": name, "body": body}))
    link = f"{link_of(database, container)}/sprocs/granted"
    scripts = holder({link: (await permit(user, "All", link)).properties["_token"]}).container(container).scripts
    # The two clients call the arguments by different names.
    name = "parameters" if inspect.iscoroutinefunction(scripts.execute_stored_procedure) else "params"
    given = {"partition_key": "a", name: ["it"]}
    assert await done(scripts.execute_stored_procedure("granted", **given)) == "ran it"
    assert (await done(scripts.get_stored_procedure("granted")))["id"] == "granted"
    for attempt in (
        lambda: scripts.execute_stored_procedure("other", **given),
        lambda: scripts.get_stored_procedure("other"),
        lambda: collect(scripts.list_stored_procedures()),
    ):
        with refused(403):
            await done(attempt())
