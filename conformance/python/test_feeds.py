"""Reading feeds page by page and resuming them."""

import pytest

from support import KEY_PK, collect, cross_partition, done, first_page, new_id, page_list, refused


@pytest.fixture(params=[400, 30_000], ids=["one-range", "five-ranges"])
async def filled(request, make_container):
    container = await make_container(offer_throughput=request.param)
    for number in range(25):
        await done(container.create_item({"id": f"{number:02}", "pk": f"p{number}"}))
    return container


ALL = {f"{number:02}" for number in range(25)}


async def test_feed_holds_every_item_once(filled):
    items = [item["id"] for item in await collect(filled.read_all_items())]
    assert len(items) == 25 and set(items) == ALL


@pytest.mark.parametrize("size", [1, 4, 25, 100])
async def test_pages_hold_every_item_once(filled, size):
    pages, tokens = await page_list(filled.read_all_items(max_item_count=size))
    items = [item["id"] for page in pages for item in page]
    assert len(items) == 25 and set(items) == ALL
    assert all(len(page) <= size for page in pages)
    assert tokens[-1] is None


async def test_feed_resumes_from_a_continuation(filled):
    first, token = await first_page(filled.read_all_items(max_item_count=7))
    assert token
    rest, _ = await page_list(filled.read_all_items(max_item_count=7), token)
    items = [item["id"] for page in [first, *rest] for item in page]
    assert len(items) == 25 and set(items) == ALL


async def test_resumed_feed_sees_later_writes_but_no_item_twice(filled):
    first, token = await first_page(filled.read_all_items(max_item_count=5))
    for number in range(25, 30):
        await done(filled.create_item({"id": str(number), "pk": f"p{number}"}))
    await done(filled.delete_item(first[0]["id"], first[0]["pk"]))
    rest, _ = await page_list(filled.read_all_items(max_item_count=5), token)
    items = [item["id"] for page in [first, *rest] for item in page]
    assert len(items) == len(set(items))
    assert set(items) >= ALL


async def test_query_pages_and_resumes(filled):
    query = "SELECT * FROM c"
    options = {"max_item_count": 6, **cross_partition(filled)}
    first, token = await first_page(filled.query_items(query, **options))
    rest, _ = await page_list(filled.query_items(query, **options), token)
    items = [item["id"] for page in [first, *rest] for item in page]
    assert len(items) == 25 and set(items) == ALL


async def test_one_partition_pages_and_resumes(container):
    for number in range(20):
        await done(container.create_item({"id": f"{number:02}", "pk": "a"}))
        await done(container.create_item({"id": f"{number:02}", "pk": "b"}))
    options = {"partition_key": "a", "max_item_count": 3}
    first, token = await first_page(container.query_items("SELECT * FROM c", **options))
    rest, _ = await page_list(container.query_items("SELECT * FROM c", **options), token)
    items = [item["id"] for page in [first, *rest] for item in page]
    assert items == sorted(items) and len(items) == 20


async def test_empty_feed(container):
    pages, _ = await page_list(container.read_all_items())
    assert [item for page in pages for item in page] == []


async def test_pages_report_their_count(filled):
    paged = filled.read_all_items(max_item_count=10)
    page, _ = await first_page(paged)
    headers = filled.client_connection.last_response_headers
    assert int(headers["x-ms-item-count"]) == len(page)
    assert float(headers["x-ms-request-charge"]) > 0


async def test_foreign_continuation_is_refused(filled):
    with refused(400):
        await first_page(filled.read_all_items(max_item_count=5), "not-a-token")


async def test_bad_page_size_is_refused(filled):
    for size in ("many", "-2", "99999999999"):

        def bad(request, size=size):
            request.http_request.headers["x-ms-max-item-count"] = size

        with refused(400):
            await collect(filled.read_all_items(raw_request_hook=bad))


async def test_containers_page(client):
    database = await done(client.create_database(new_id("db")))
    for number in range(7):
        await done(database.create_container(f"c{number}", KEY_PK))
    pages, _ = await page_list(database.list_containers(max_item_count=3))
    names = [entry["id"] for page in pages for entry in page]
    assert sorted(names) == [f"c{number}" for number in range(7)]
    assert max(len(page) for page in pages) <= 3
    await done(client.delete_database(database))
