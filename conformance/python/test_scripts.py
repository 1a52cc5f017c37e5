"""Stored procedures, triggers and user-defined functions."""

import inspect
from urllib.parse import unquote

from support import collect, cross_partition, done, refused

BULK = """function (items) {
    var collection = getContext().getCollection(), count = 0;
    if (!items.length) getContext().getResponse().setBody(0);
    else create();
    function create() {
        if (!collection.createDocument(collection.getSelfLink(), items[count], created)) {
            getContext().getResponse().setBody(count);
        }
    }
    function created(err) {
        if (err) throw err;
        if (++count < items.length) create();
        else getContext().getResponse().setBody(count);
    }
}"""

STAMP = """function () {
    var request = getContext().getRequest(), body = request.getBody();
    body.stamped = request.getOperationType();
    request.setBody(body);
}"""

COUNT = """function () {
    var collection = getContext().getCollection(), made = getContext().getResponse().getBody();
    collection.readDocument(collection.getAltLink() + '/docs/meta', function (err, meta) {
        if (err) throw err;
        meta.last = made.id;
        collection.replaceDocument(meta._self, meta, function (err) { if (err) throw err; });
    });
}"""


async def procedure(container, id, body):
    return await done(container.scripts.create_stored_procedure({"id": id, "body": body}))


async def call(container, id, params=None, partition_key="a", **options):
    execute = container.scripts.execute_stored_procedure
    # The two clients call the arguments by different names.
    name = "parameters" if inspect.iscoroutinefunction(execute) else "params"
    return await done(execute(id, partition_key=partition_key, **{name: params}, **options))


async def failed(result, status, substatus=0):
    """The text of the refusal that a call must end with."""
    with refused(status, substatus) as refusal:
        await done(result() if callable(result) else result)
    return refusal.text


async def ids(container):
    return sorted(entry["id"] for entry in await collect(container.read_all_items()))


async def test_procedures_are_resources(container):
    scripts = container.scripts
    made = await procedure(container, "p", "function () {}")
    assert made["body"] == "function () {}" and made["_self"].endswith("/")
    with refused(409):
        await done(scripts.create_stored_procedure({"id": "p", "body": "x"}))
    assert await done(scripts.get_stored_procedure("p")) == made
    assert await collect(scripts.list_stored_procedures()) == [made]
    query = "SELECT * FROM root r WHERE r.id=@id"
    parameters = [{"name": "@id", "value": "p"}]
    assert await collect(scripts.query_stored_procedures(query, parameters=parameters)) == [made]
    replaced = await done(scripts.replace_stored_procedure("p", {"id": "p2", "body": "x"}))
    assert (replaced["id"], replaced["_rid"]) == ("p2", made["_rid"])
    with refused(404):
        await done(scripts.get_stored_procedure("p"))
    await done(scripts.delete_stored_procedure("p2"))
    with refused(404):
        await done(scripts.delete_stored_procedure("p2"))


async def test_triggers_and_functions_are_resources(container):
    scripts = container.scripts
    trigger = {"id": "t", "body": "x", "triggerType": "Pre", "triggerOperation": "All"}
    made = await done(scripts.create_trigger(trigger))
    assert (made["triggerType"], made["triggerOperation"]) == ("Pre", "All")
    assert await done(scripts.get_trigger("t")) == made
    assert await collect(scripts.list_triggers()) == [made]
    made = await done(scripts.replace_trigger("t", {**trigger, "body": "y"}))
    assert made["body"] == "y"
    await done(scripts.delete_trigger("t"))
    with refused(404):
        await done(scripts.get_trigger("t"))
    made = await done(scripts.create_user_defined_function({"id": "f", "body": "x"}))
    assert await done(scripts.get_user_defined_function("f")) == made
    assert await collect(scripts.list_user_defined_functions()) == [made]
    made = await done(scripts.replace_user_defined_function("f", {"id": "f", "body": "y"}))
    assert made["body"] == "y"
    await done(scripts.delete_user_defined_function("f"))
    with refused(404):
        await done(scripts.get_user_defined_function("f"))


async def test_a_procedure_inserts_all_or_nothing(container):
    await procedure(container, "bulk", BULK)
    items = [{"id": f"{n:03}", "pk": "a", "n": n} for n in range(100)]
    assert await call(container, "bulk", params=[items]) == 100
    assert len(await ids(container)) == 100
    twice = [{"id": "new", "pk": "a"}, {"id": "000", "pk": "a"}]
    message = await failed(call(container, "bulk", params=[twice]), 400, 409)
    assert "Encountered exception while executing function" in message
    assert "new" not in await ids(container)
    elsewhere = [{"id": "new", "pk": "b"}]
    await failed(call(container, "bulk", params=[elsewhere]), 400, 400)


async def test_what_a_procedure_says_of_an_item_is_true(container):
    body = """function (x) {
        __.createDocument(__.getSelfLink(), { id: 'i', pk: 'a', x: x }, function (e, made) {
            if (e) throw e;
            __.response.setBody(made);
        });
    }"""
    await procedure(container, "p", body)
    made = await call(container, "p", params=["so"])
    stored = await done(container.read_item("i", "a"))
    assert {**made, "_ts": 0} == {**stored, "_ts": 0}


async def test_errors_of_procedures(container):
    await procedure(container, "throws", "function () { throw new Error(1234, 'why'); }")
    assert "why" in await failed(call(container, "throws"), 400, 1234)
    await procedure(container, "broken", "function ( {")
    assert "Encountered exception while compiling Javascript." in await failed(call(container, "broken"), 400, 65535)
    await failed(call(container, "none"), 404)
    await procedure(container, "silent", "function () {}")
    assert await call(container, "silent") == ""


async def test_logs_are_sent_when_asked_for(container):
    await procedure(container, "log", "function (x) { console.log('said %s', x); getContext().getResponse().setBody(x); }")
    name = "x-ms-documentdb-script-log-results"
    assert await call(container, "log", params=["so"], enable_script_logging=True) == "so"
    assert unquote(container.client_connection.last_response_headers[name]) == "said so"
    await call(container, "log", params=["so"])
    assert name not in container.client_connection.last_response_headers


async def test_triggers_run_with_the_write_that_names_them(container):
    scripts = container.scripts
    await done(scripts.create_trigger({"id": "stamp", "body": STAMP, "triggerType": "Pre", "triggerOperation": "All"}))
    await done(scripts.create_trigger({"id": "count", "body": COUNT, "triggerType": "Post", "triggerOperation": "Create"}))
    await failed(lambda: container.create_item({"id": "1", "pk": "a"}, post_trigger_include="count"), 400, 404)
    assert await ids(container) == []
    await done(container.create_item({"id": "meta", "pk": "a"}))
    made = await done(container.create_item({"id": "1", "pk": "a"}, pre_trigger_include="stamp", post_trigger_include="count"))
    assert made["stamped"] == "Create"
    assert (await done(container.read_item("meta", "a")))["last"] == "1"
    replaced = await done(container.replace_item("1", {"id": "1", "pk": "a"}, pre_trigger_include="stamp"))
    assert replaced["stamped"] == "Replace"
    await failed(lambda: container.create_item({"id": "2", "pk": "a"}, pre_trigger_include="none"), 400)
    await failed(lambda: container.create_item({"id": "2", "pk": "a"}, pre_trigger_include="count"), 400)
    await failed(lambda: container.replace_item("1", {"id": "1", "pk": "a"}, post_trigger_include="count"), 400)


async def test_functions_in_queries(container):
    for n in range(5):
        await done(container.create_item({"id": f"{n}", "pk": "a", "n": n}))
    await done(container.scripts.create_user_defined_function({"id": "double", "body": "function (x) { return x * 2; }"}))
    await done(container.scripts.create_user_defined_function({"id": "fails", "body": "function () { throw new Error(7, 'bad'); }"}))
    query = "SELECT VALUE udf.double(c.n) FROM c WHERE udf.double(c.n) > 3 ORDER BY c.n"
    assert await collect(container.query_items(query, partition_key="a")) == [4, 6, 8]
    with refused(400, 7, "bad"):
        await collect(container.query_items("SELECT VALUE udf.fails() FROM c", partition_key="a"))


async def test_functions_in_queries_over_all_partitions(container):
    for n in range(6):
        await done(container.create_item({"id": f"{n}", "pk": f"{n}", "n": n}))
    await done(container.scripts.create_user_defined_function({"id": "negate", "body": "function (x) { return -x; }"}))
    query = "SELECT VALUE udf.negate(c.n) FROM c ORDER BY c.n DESC"
    assert await collect(container.query_items(query, **cross_partition(container))) == [-5, -4, -3, -2, -1, 0]
