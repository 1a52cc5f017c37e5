"""Throughput: what a container or database was given, and how it changes."""

import pytest
from azure.cosmos import ThroughputProperties

from support import KEY_PK, done, new_id, refused


async def throughput(resource):
    return await done(resource.get_throughput())


async def test_container_has_a_default_offer(container):
    assert (await throughput(container)).offer_throughput == 400


@pytest.mark.parametrize("amount", [400, 1000, 12000])
async def test_manual_throughput_reads_back(make_container, amount):
    offer = await throughput(await make_container(offer_throughput=amount))
    assert offer.offer_throughput == amount
    assert offer.auto_scale_max_throughput is None
    assert offer.properties["content"]["offerThroughput"] == amount
    assert offer.properties["id"] in offer.properties["_self"]


async def test_manual_throughput_is_replaced(make_container):
    container = await make_container(offer_throughput=400)
    replaced = await done(container.replace_throughput(1100))
    assert replaced.offer_throughput == 1100
    assert (await throughput(container)).offer_throughput == 1100


async def test_autoscale_reads_back_and_is_replaced(make_container):
    wanted = ThroughputProperties(auto_scale_max_throughput=5000, auto_scale_increment_percent=2)
    container = await make_container(offer_throughput=wanted)
    offer = await throughput(container)
    assert offer.auto_scale_max_throughput == 5000
    assert offer.auto_scale_increment_percent == 2
    assert offer.offer_throughput is None
    higher = ThroughputProperties(auto_scale_max_throughput=7000, auto_scale_increment_percent=20)
    await done(container.replace_throughput(higher))
    offer = await throughput(container)
    assert offer.auto_scale_max_throughput == 7000
    assert offer.auto_scale_increment_percent == 20


async def test_autoscale_without_increment_has_increment_zero(make_container):
    container = await make_container(offer_throughput=ThroughputProperties(auto_scale_max_throughput=4000))
    assert (await throughput(container)).auto_scale_increment_percent == 0


@pytest.mark.parametrize("amount", [100, 399, 450])
async def test_bad_manual_throughput_is_refused(database, amount):
    with refused(400):
        await done(database.create_container(new_id("c"), KEY_PK, offer_throughput=amount))


async def test_bad_autoscale_is_refused(database):
    wanted = ThroughputProperties(auto_scale_max_throughput=-200, auto_scale_increment_percent=0)
    with refused(400, text="Requested throughput -200 is less than required minimum throughput 1000"):
        await done(database.create_container(new_id("c"), KEY_PK, offer_throughput=wanted))


async def test_shared_throughput_belongs_to_the_database(client):
    shared = await done(client.create_database(new_id("db"), offer_throughput=600))
    try:
        assert (await throughput(shared)).offer_throughput == 600
        own = await done(shared.create_container("own", KEY_PK, offer_throughput=500))
        assert (await throughput(own)).offer_throughput == 500
        await done(shared.replace_throughput(700))
        assert (await throughput(shared)).offer_throughput == 700
    finally:
        await done(client.delete_database(shared))


async def test_offer_goes_with_its_container(database, container):
    await throughput(container)
    await done(database.delete_container(container))
    with refused(404):
        await throughput(container)
