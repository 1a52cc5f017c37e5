"""Session tokens: they grow with writes, come with every answer, and are honoured."""

from support import KEY_PK, collect, cross_partition, done, refused, session_token, token_lsn


async def test_tokens_grow_with_every_write(container):
    tokens = []
    for number in range(5):
        created = await done(container.create_item({"id": str(number), "pk": "a"}))
        tokens.append(token_lsn(session_token(created)))
    tokens.append(token_lsn(session_token(await done(container.upsert_item({"id": "0", "pk": "a"})))))
    assert tokens == sorted(set(tokens))


async def test_read_of_a_quiet_partition_repeats_the_token_of_the_write(container):
    written = session_token(await done(container.create_item({"id": "1", "pk": "a"})))
    assert session_token(await done(container.read_item("1", "a"))) == written
    assert session_token(await done(container.read_item("1", "a"))) == written
    assert len(await collect(container.query_items("SELECT * FROM c", partition_key="a"))) == 1
    assert container.client_connection.last_response_headers["x-ms-session-token"] == written


async def test_token_names_its_range(make_container):
    container = await make_container(offer_throughput=30_000)
    for number in range(20):
        created = await done(container.create_item({"id": str(number), "pk": f"p{number}"}))
        headers = created.get_response_headers()
        assert headers["x-ms-session-token"].split(":")[0] == headers["x-ms-documentdb-partitionkeyrangeid"]


async def test_another_client_reads_what_the_token_promises(account, database, container):
    written = await done(container.create_item({"id": "1", "pk": "a"}))
    other = account.client()
    there = other.get_database_client(database.id).get_container_client(container.id)
    read = await done(there.read_item("1", "a", session_token=session_token(written)))
    assert read["_etag"] == written["_etag"]
    await done(other.close())


async def test_token_from_the_future_is_not_available(container):
    written = session_token(await done(container.create_item({"id": "1", "pk": "a"})))
    prefix, lsn = written.rsplit("#", 1)
    with refused(404, substatus=1002):
        await done(container.read_item("1", "a", session_token=f"{prefix}#{int(lsn) + 1_000_000}"))


async def test_compound_token_is_searched_for_the_right_range(container):
    written = session_token(await done(container.create_item({"id": "1", "pk": "a"})))
    compound = f"{written},17:-1#99999999"
    assert (await done(container.read_item("1", "a", session_token=compound)))["id"] == "1"


async def test_errors_carry_a_token_too(container):
    written = await done(container.create_item({"id": "1", "pk": "a"}))
    with refused(404) as missing:
        await done(container.read_item("2", "a"))
    assert missing.headers["x-ms-session-token"] == session_token(written)
    with refused(409) as conflict:
        await done(container.create_item({"id": "1", "pk": "a"}))
    assert conflict.headers["x-ms-session-token"]


async def test_one_client_reads_its_own_writes_over_ranges(make_container):
    container = await make_container(KEY_PK, offer_throughput=30_000)
    for number in range(30):
        await done(container.upsert_item({"id": "1", "pk": f"p{number % 6}", "n": number}))
        assert (await done(container.read_item("1", f"p{number % 6}")))["n"] == number


async def test_one_client_reads_its_own_writes_after_answers_of_any_range(make_container):
    """Such an answer has the token of one range, which does not replace what is known of the others."""
    container = await make_container(KEY_PK, offer_throughput=15_000)
    assert len(await collect(container.read_feed_ranges())) == 3
    for number in range(12):
        pk = f"p{number % 6}"
        await done(container.upsert_item({"id": "1", "pk": pk, "n": number}))
        query = "SELECT VALUE c.n FROM c WHERE c.n = @n"
        parameters = [{"name": "@n", "value": number}]
        found = container.query_items(query, parameters=parameters, **cross_partition(container))
        assert await collect(found) == [number]
        await done(container.read())
        assert len(await collect(container.read_all_items())) == min(number + 1, 6)
        assert (await done(container.read_item("1", pk)))["n"] == number
        assert len(await collect(container.query_items_change_feed(start_time="Beginning"))) == min(number + 1, 6)
        assert (await done(container.read_item("1", f"p{max(0, number - 1) % 6}")))["n"] == max(0, number - 1)
