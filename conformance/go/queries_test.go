package conformance

import (
	"fmt"
	"sort"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Things of several keys: n of them, in p0, p1 …
func spread(n int) []thing {
	things := make([]thing, n)
	for at := range things {
		things[at] = thing{ID: fmt.Sprintf("i%03d", at), Pk: fmt.Sprintf("p%d", at%7), N: at}
	}
	return things
}

func TestQueriesOfOneKey(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, spread(30)...)
		equal(t, []int{1, 8, 15, 22, 29}, rows[int](t, container, keyed("p1"), "SELECT VALUE c.n FROM c ORDER BY c.n", nil))
		equal(t, []int{75}, rows[int](t, container, keyed("p1"), "SELECT VALUE SUM(c.n) FROM c", nil))
		options := &azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{
			{Name: "@least", Value: 10}, {Name: "@ids", Value: []string{"i015", "i001"}},
		}}
		found := rows[thing](t, container, keyed("p1"), "SELECT * FROM c WHERE c.n >= @least AND ARRAY_CONTAINS(@ids, c.id)", options)
		equal(t, []thing{{ID: "i015", Pk: "p1", N: 15}}, found)
		_, err := container.NewQueryItemsPager("SELECT FROM", keyed("p1"), nil).NextPage(ctx)
		refused(t, 400, err)
	})
}

func TestQueriesComeInPages(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, spread(30)...)
		query, options := "SELECT VALUE c.n FROM c ORDER BY c.n DESC", &azcosmos.QueryOptions{PageSizeHint: 2, PopulateIndexMetrics: true}
		page, err := container.NewQueryItemsPager(query, keyed("p1"), options).NextPage(ctx)
		must(t, err)
		equal(t, 2, len(page.Items))
		that(t, page.QueryMetrics != nil && page.IndexMetrics != nil, "metrics")
		// Another client goes on where this one stopped.
		options.ContinuationToken = page.ContinuationToken
		there := a.seen(t, a.connect(t, a.server.Key, azcosmos.ClientOptions{}), container)
		equal(t, []int{15, 8, 1}, rows[int](t, there, keyed("p1"), query, options))
		options.ContinuationToken = pointer("not a token")
		_, err = there.NewQueryItemsPager(query, keyed("p1"), options).NextPage(ctx)
		refused(t, 400, err)
	})
}

func TestQueriesOverThreeRanges(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, threeRanges, nil)
		ranges, err := container.ReadFeedRanges(ctx, nil)
		must(t, err)
		equal(t, 3, len(ranges))
		create(t, container, spread(60)...)
		found := rows[int](t, container, azcosmos.NewPartitionKey(), "SELECT VALUE c.n FROM c WHERE c.n >= 20", &azcosmos.QueryOptions{PageSizeHint: 7})
		sort.Ints(found)
		equal(t, 40, len(found))
		equal(t, []int{20, 59}, []int{found[0], found[39]})
		// A filter on the key leads to one range, so everything is allowed there.
		equal(t, []int{3}, rows[int](t, container, azcosmos.NewPartitionKey(), "SELECT VALUE MIN(c.n) FROM c WHERE c.pk = 'p3'", nil))
		off := &azcosmos.QueryOptions{EnableCrossPartitionQuery: pointer(false)}
		_, err = container.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), off).NextPage(ctx)
		refused(t, 400, err)
		// The service leaves merging to clients, and this SDK does not merge.
		for _, merging := range []string{"SELECT * FROM c ORDER BY c.n", "SELECT VALUE COUNT(1) FROM c", "SELECT DISTINCT c.pk FROM c"} {
			_, err = container.NewQueryItemsPager(merging, azcosmos.NewPartitionKey(), nil).NextPage(ctx)
			refused(t, 400, err)
		}
	})
}

func TestReadMany(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, threeRanges, nil)
		create(t, container, spread(60)...)
		identities := []azcosmos.ItemIdentity{{ID: "missing", PartitionKey: keyed("p0")}}
		for _, each := range spread(60)[5:50] {
			identities = append(identities, azcosmos.ItemIdentity{ID: each.ID, PartitionKey: keyed(each.Pk)})
		}
		response, err := container.ReadManyItems(ctx, identities, nil)
		must(t, err)
		sum := 0
		for _, each := range response.Items {
			sum += decoded[thing](t, each).N
		}
		equal(t, 45, len(response.Items))
		equal(t, 45*(5+49)/2, sum)
		that(t, response.RequestCharge > 0, "a charge")
	})
}

func TestSessionsReadTheirOwnWritesOverThreeRanges(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, threeRanges, nil)
		var token *string
		for n := range 30 {
			item := thing{ID: "1", Pk: fmt.Sprintf("p%d", n%7), N: n}
			written, err := container.UpsertItem(ctx, keyed(item.Pk), encoded(t, item), nil)
			must(t, err)
			token = written.SessionToken
			read, err := container.ReadItem(ctx, keyed(item.Pk), "1", &azcosmos.ItemOptions{SessionToken: token})
			must(t, err)
			equal(t, n, decoded[thing](t, read.Value).N)
			found := rows[int](t, container, azcosmos.NewPartitionKey(), fmt.Sprintf("SELECT VALUE c.n FROM c WHERE c.n = %d", n),
				&azcosmos.QueryOptions{SessionToken: token})
			equal(t, []int{n}, found)
		}
	})
}
