"""The MongoDB API: collections, documents, cursors and indexes."""

import bson
import pytest
from bson import ObjectId
from pymongo import DESCENDING, ReturnDocument
from pymongo.errors import BulkWriteError, CursorNotFound, DuplicateKeyError, OperationFailure

from mongo import Mongo, refused_command
from server import export_certificate
from support import done, new_id

VARIANTS = [("sync", "mongo", False), ("aio", "mongo_cosmos", True)]


@pytest.fixture(scope="session")
def certificate(server, tmp_path_factory):
    return export_certificate(server, tmp_path_factory.mktemp("certificate"))


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join(variant[:2]))
def mongo(request, server, certificate):
    return Mongo(server, certificate, *request.param)


@pytest.fixture
async def database(mongo):
    client = mongo.client()
    name = new_id("db")
    yield client[name]
    await done(client.drop_database(name))
    await done(client.close())


@pytest.fixture
def things(database):
    return database.things


async def listed(cursor):
    to_list = cursor.to_list()
    return await done(to_list)


async def test_a_document_is_inserted_found_changed_and_removed(things):
    made = await done(things.insert_one({"name": "a", "tags": ["x"]}))
    assert isinstance(made.inserted_id, ObjectId)
    assert await done(things.find_one({"name": "a"})) == {"_id": made.inserted_id, "name": "a", "tags": ["x"]}
    changed = await done(things.update_one({"name": "a"}, {"$inc": {"n": 2}, "$push": {"tags": "y"}}))
    assert (changed.matched_count, changed.modified_count) == (1, 1)
    found = await done(things.find_one({"tags": "y"}))
    assert found == {"_id": made.inserted_id, "name": "a", "tags": ["x", "y"], "n": 2}
    replaced = await done(things.replace_one({"n": 2}, {"name": "b"}))
    assert replaced.modified_count == 1
    assert (await done(things.delete_one({"name": "b"}))).deleted_count == 1
    assert await done(things.find_one()) is None


async def test_every_type_comes_back(things):
    document = {
        "_id": bson.Binary(b"\x01" * 16, 4),
        "double": -0.0,
        "int": 1,
        "long": bson.Int64(1 << 40),
        "decimal": bson.Decimal128("1.10"),
        "text": "naïve \x00 \u2603",
        "binary": bson.Binary(b"x", 128),
        "id": ObjectId(),
        "yes": True,
        "when": bson.datetime_ms.DatetimeMS(-1),
        "null": None,
        "regex": bson.Regex("^a", "i"),
        "code": bson.Code("f()"),
        "scoped": bson.Code("f()", {"a": 1}),
        "time": bson.Timestamp(7, 8),
        "least": bson.MinKey(),
        "most": bson.MaxKey(),
        "nested": {"z": [1, {"a": []}], "a": {}},
        "$dollar": 1,
        "a.b": 2,
        "": 3,
    }
    await done(things.insert_one(dict(document)))
    raw = things.with_options(codec_options=bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
    found = await done(raw.find_one({"text": document["text"]}))
    assert found.raw == bson.encode(document)


async def test_ten_thousand_documents_at_once_come_in_the_order_of_their_ids(things):
    await done(things.insert_many([{"_id": (n * 7919) % 10_000, "n": n} for n in range(10_000)]))
    found = await listed(things.find({}, {"_id": 1}))
    assert [document["_id"] for document in found] == list(range(10_000))
    assert await done(things.estimated_document_count()) == 10_000
    last, pages = -1, 0
    while page := await listed(things.find({"_id": {"$gt": last}}).limit(3000)):
        last, pages = page[-1]["_id"], pages + 1
    assert (last, pages) == (9_999, 4)
    found = await listed(things.find({"n": {"$lt": 50}}).sort("n", DESCENDING).skip(1).limit(3))
    assert [document["n"] for document in found] == [48, 47, 46]


async def test_inserts_stop_at_the_first_error_or_go_on(things):
    documents = [{"_id": n} for n in (1, 2, 1, 3)]
    with pytest.raises(BulkWriteError) as failed:
        await done(things.insert_many(documents))
    [error] = failed.value.details["writeErrors"]
    assert (error["index"], error["code"], error["keyValue"]) == (2, 11000, {"_id": 1})
    assert error["errmsg"].startswith("E11000 duplicate key error collection: ")
    assert [document["_id"] for document in await listed(things.find())] == [1, 2]
    with pytest.raises(BulkWriteError) as failed:
        await done(things.insert_many([{"_id": n} for n in (2, 4, 1, 5)], ordered=False))
    assert [error["index"] for error in failed.value.details["writeErrors"]] == [0, 2]
    assert [document["_id"] for document in await listed(things.find())] == [1, 2, 4, 5]


async def test_upserts_and_find_and_modify(things):
    made = await done(things.update_one({"_id": 5, "kind": "k"}, {"$set": {"n": 1}}, upsert=True))
    assert made.upserted_id == 5
    assert await done(things.find_one()) == {"_id": 5, "kind": "k", "n": 1}
    after = await done(
        things.find_one_and_update({"_id": 5}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER)
    )
    assert after["n"] == 2
    before = await done(things.find_one_and_replace({"_id": 5}, {"m": 1}))
    assert before["n"] == 2
    assert await done(things.find_one_and_delete({"m": 1})) == {"_id": 5, "m": 1}
    assert await done(things.find_one_and_delete({"m": 1})) is None
    await done(things.insert_many([{"g": n % 2} for n in range(10)]))
    many = await done(things.update_many({"g": 1}, {"$set": {"seen": True}}))
    assert (many.matched_count, many.modified_count) == (5, 5)
    assert (await done(things.delete_many({"seen": True}))).deleted_count == 5
    assert await done(things.distinct("g")) == [0]


async def test_cursors_are_read_on_closed_and_unknown(mongo, things):
    await done(things.insert_many([{"_id": n} for n in range(10)]))
    cursor = things.find().batch_size(3)
    first = await done(cursor.next())
    assert first == {"_id": 0} and cursor.cursor_id
    number = cursor.cursor_id
    assert len(await listed(cursor)) == 9
    database = things.database
    with pytest.raises(CursorNotFound):
        await done(database.command("getMore", bson.Int64(number), collection="things"))
    opened = await done(database.command("find", "things", batchSize=2))
    number = opened["cursor"]["id"]
    with refused_command(13):
        await done(database.command("getMore", bson.Int64(number), collection="other"))
    killed = await done(database.command("killCursors", "things", cursors=[number, 5]))
    assert (killed["cursorsKilled"], killed["cursorsNotFound"]) == ([number], [5])


async def test_collections_and_databases_are_listed_and_dropped(mongo, database):
    await done(database.create_collection("b"))
    await done(database.a.insert_one({}))
    assert sorted(await done(database.list_collection_names())) == ["a", "b"]
    with refused_command(48):
        await done(database.command("create", "b"))
    assert database.name in await done(database.client.list_database_names())
    stats = await done(database.command("collStats", "a"))
    assert (stats["count"], stats["nindexes"], stats["sharded"]) == (1, 1, False)
    assert (await done(database.command("dbStats")))["collections"] == 2
    await done(database.drop_collection("a"))
    assert await done(database.list_collection_names()) == ["b"]
    with refused_command(238):
        await done(database.command("create", "c", capped=True, size=1000))
    with refused_command(73):
        await done(database.command("create", "a$b"))


async def test_indexes_are_made_enforced_listed_and_dropped(things):
    await done(things.insert_many([{"a": n, "b": n % 3} for n in range(30)]))
    assert await done(things.create_index("a", unique=True)) == "a_1"
    assert await done(things.create_index([("b", 1), ("a", -1)])) == "b_1_a_-1"
    information = await done(things.index_information())
    assert information["a_1"]["unique"] is True and list(information) == ["_id_", "a_1", "b_1_a_-1"]
    with pytest.raises(DuplicateKeyError) as failed:
        await done(things.insert_one({"a": 7}))
    assert failed.value.details["keyValue"] == {"a": 7} and "index: a_1" in failed.value.details["errmsg"]
    with pytest.raises(DuplicateKeyError):
        await done(things.update_one({"a": 8}, {"$set": {"a": 9}}))
    with pytest.raises(DuplicateKeyError):
        await done(things.create_index("b", unique=True))
    assert "b_1" not in await done(things.index_information())
    with refused_command(85):
        await done(things.create_index("a"))
    await done(things.drop_index("a_1"))
    await done(things.insert_one({"a": 7}))
    with refused_command(27):
        await done(things.drop_index("a_1"))
    with refused_command(72):
        await done(things.drop_index("_id_"))


async def test_pipelines_filter_group_join_and_sort(things):
    await done(things.insert_many([{"_id": n, "kind": n % 3, "n": n} for n in range(3000)]))
    assert await done(things.count_documents({"kind": 1})) == 1000
    kinds = things.database.kinds
    await done(kinds.insert_many([{"_id": n, "name": f"kind {n}"} for n in range(3)]))
    stages = [
        {"$match": {"n": {"$gte": 1500}}},
        {"$group": {"_id": "$kind", "total": {"$sum": "$n"}, "many": {"$sum": 1}}},
        {"$lookup": {"from": "kinds", "localField": "_id", "foreignField": "_id", "as": "kind"}},
        {"$unwind": "$kind"},
        {"$project": {"_id": 0, "name": "$kind.name", "many": 1, "mean": {"$divide": ["$total", "$many"]}}},
        {"$sort": {"name": -1}},
    ]
    cursor = await done(things.aggregate(stages))
    found = await listed(cursor)
    expected = [{"many": 500, "name": f"kind {n}", "mean": 2248.5 + n} for n in (2, 1, 0)]
    assert found == expected
    cursor = await done(things.aggregate([{"$match": {"kind": 2}}], batchSize=7))
    assert len(await listed(cursor)) == 1000
    changed = await done(things.update_many({"kind": 0}, [{"$set": {"twice": {"$multiply": ["$n", 2]}}}]))
    assert changed.modified_count == 1000
    assert (await done(things.find_one({"_id": 9})))["twice"] == 18
    with refused_command(40324):
        await done(things.aggregate([{"$nonsense": {}}]))
    with refused_command(9):
        await done(things.database.command("aggregate", "things", pipeline=[]))


async def test_pipelines_write_to_collections(things):
    await done(things.insert_many([{"_id": n, "n": n} for n in range(5)]))
    database = things.database
    await done(things.aggregate([{"$match": {"n": {"$lt": 2}}}, {"$out": "copy"}]))
    assert await listed(database.copy.find()) == [{"_id": 0, "n": 0}, {"_id": 1, "n": 1}]
    with refused_command(115):
        await done(things.aggregate([{"$out": "copy"}]))
    stages = [{"$project": {"seen": {"$literal": True}}}, {"$merge": {"into": "copy", "whenNotMatched": "insert"}}]
    await done(things.aggregate(stages))
    assert await done(database.copy.find_one({"_id": 1})) == {"_id": 1, "n": 1, "seen": True}
    assert await done(database.copy.find_one({"_id": 4})) == {"_id": 4, "seen": True}
    with refused_command(13113):
        await done(
            things.aggregate(
                [{"$project": {"_id": {"$add": ["$_id", 9]}}}, {"$merge": {"into": "copy", "whenNotMatched": "fail"}}]
            )
        )


async def test_what_is_not_supported_says_so(things):
    await done(things.insert_one({"a": 1}))
    with refused_command(238):
        await listed(things.find({}, collation={"locale": "de"}))
    with refused_command(9):
        await done(things.database.command("find", "things", readConcern={"level": "none"}))
    with pytest.raises(OperationFailure) as failed:
        await done(things.database.command("find", "things", filter={"a": {"$nonsense": 1}}))
    assert failed.value.code == 2
    with refused_command(40415):
        await done(things.database.command("update", "things", updates=[{"q": {}, "u": {}, "x": 1}]))


async def test_the_charge_of_the_last_command_is_told(things):
    await done(things.insert_one({"_id": 1}))
    await done(things.find_one({"_id": 1}))
    last = await done(things.database.command("getLastRequestStatistics"))
    assert last["CommandName"] == "find" and last["RequestCharge"] >= 1
