package conformance

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestCertificateVerifies(t *testing.T) {
	a := &account{server: shared, transport: "https"}
	for _, host := range []string{"localhost", "127.0.0.1"} {
		client, err := azcosmos.NewClientFromConnectionString(
			"AccountEndpoint="+shared.endpoint("nosql", "https", host)+";AccountKey="+shared.Key+";",
			&azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{Transport: shared.trusting()}})
		must(t, err)
		_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: newID("db")}, nil)
		must(t, err)
	}
	stranger := shared.trusting()
	*stranger = *(&server{authority: x509.NewCertPool()}).trusting()
	client := a.connect(t, shared.Key, azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: stranger, Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: newID("db")}, nil)
	that(t, err != nil && strings.Contains(err.Error(), "certificate"), "a certificate that is not trusted: %v", err)
}

func TestKeys(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "1", Pk: "a"})
		reader := a.seen(t, a.connect(t, readonlyKey, azcosmos.ClientOptions{}), container)
		_, err := reader.ReadItem(ctx, keyed("a"), "1", nil)
		must(t, err)
		_, err = reader.DeleteItem(ctx, keyed("a"), "1", nil)
		refused(t, 403, err)
		stranger := a.seen(t, a.connect(t, otherKey, withoutRetries()), container)
		_, err = stranger.ReadItem(ctx, keyed("a"), "1", nil)
		refused(t, 401, err)
	})
}

func TestRegionsAreDiscovered(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "1", Pk: "a"})
		client := a.connect(t, shared.Key, azcosmos.ClientOptions{PreferredRegions: []string{"West US", "East US"}})
		response, err := a.seen(t, client, container).ReadItem(ctx, keyed("a"), "1", nil)
		must(t, err)
		that(t, response.RequestCharge > 0 && response.ActivityID != "", "charge and activity")
		that(t, response.Diagnostics.String() != "", "diagnostics")
	})
}

func TestDatabases(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		read, err := a.database.Read(ctx, nil)
		must(t, err)
		equal(t, a.database.ID(), read.DatabaseProperties.ID)
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: a.database.ID()}, nil)
		refused(t, 409, err)
		names := paged(t, a.client.NewQueryDatabasesPager("SELECT * FROM root r WHERE r.id = @id", &azcosmos.QueryDatabasesOptions{
			QueryParameters: []azcosmos.QueryParameter{{Name: "@id", Value: a.database.ID()}},
		}), func(page azcosmos.QueryDatabasesResponse) []azcosmos.DatabaseProperties { return page.Databases })
		equal(t, 1, len(names))
		_, err = a.database.Delete(ctx, &azcosmos.DeleteDatabaseOptions{IfMatchEtag: pointer(azcore.ETag(`"other"`))})
		refused(t, 412, err)
		_, err = a.database.Delete(ctx, nil)
		must(t, err)
		_, err = a.database.Read(ctx, nil)
		refused(t, 404, err)
	})
}

func TestContainers(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, func(properties *azcosmos.ContainerProperties) {
			properties.DefaultTimeToLive = pointer(int32(-1))
			properties.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/n"}}}}
			properties.IndexingPolicy = &azcosmos.IndexingPolicy{
				Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
				IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
				CompositeIndexes: [][]azcosmos.CompositeIndex{{
					{Path: "/n", Order: azcosmos.CompositeIndexAscending}, {Path: "/pk", Order: azcosmos.CompositeIndexDescending},
				}},
			}
		})
		read, err := container.Read(ctx, nil)
		must(t, err)
		properties := *read.ContainerProperties
		equal(t, int32(-1), *properties.DefaultTimeToLive)
		equal(t, []string{"/pk"}, properties.PartitionKeyDefinition.Paths)
		equal(t, azcosmos.CompositeIndexDescending, properties.IndexingPolicy.CompositeIndexes[0][1].Order)
		create(t, container, thing{ID: "1", Pk: "a", N: 1})
		_, err = container.CreateItem(ctx, keyed("a"), encoded(t, thing{ID: "2", Pk: "a", N: 1}), nil)
		refused(t, 409, err)
		properties.DefaultTimeToLive = pointer(int32(60))
		replaced, err := container.Replace(ctx, properties, nil)
		must(t, err)
		equal(t, int32(60), *replaced.ContainerProperties.DefaultTimeToLive)
		found := paged(t, a.database.NewQueryContainersPager("SELECT * FROM c", nil),
			func(page azcosmos.QueryContainersResponse) []azcosmos.ContainerProperties { return page.Containers })
		equal(t, 1, len(found))
		_, err = container.Delete(ctx, nil)
		must(t, err)
		_, err = container.Read(ctx, nil)
		refused(t, 404, err)
	})
}

func TestThroughput(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 500, nil)
		read, err := container.ReadThroughput(ctx, nil)
		must(t, err)
		manual, isManual := read.ThroughputProperties.ManualThroughput()
		equal(t, true, isManual)
		equal(t, int32(500), manual)
		equal(t, int32(400), *read.MinThroughput)
		replaced, err := container.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(700), nil)
		must(t, err)
		manual, _ = replaced.ThroughputProperties.ManualThroughput()
		equal(t, int32(700), manual)
		_, err = container.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(150), nil)
		refused(t, 400, err)

		id := newID("db")
		autoscale := azcosmos.NewAutoscaleThroughputProperties(4000)
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, &azcosmos.CreateDatabaseOptions{ThroughputProperties: &autoscale})
		must(t, err)
		database, err := a.client.NewDatabase(id)
		must(t, err)
		read, err = database.ReadThroughput(ctx, nil)
		must(t, err)
		most, isAutoscale := read.ThroughputProperties.AutoscaleMaxThroughput()
		equal(t, true, isAutoscale)
		equal(t, int32(4000), most)
		replaced, err = database.ReplaceThroughput(ctx, azcosmos.NewAutoscaleThroughputProperties(5000), nil)
		must(t, err)
		most, _ = replaced.ThroughputProperties.AutoscaleMaxThroughput()
		equal(t, int32(5000), most)
		_, err = a.database.ReadThroughput(ctx, nil)
		that(t, err != nil, "a database without throughput has no offer")
	})
}
