package conformance

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Reads the change feed of a feed range to its end; returns what is new and where to go on.
func changes(t *testing.T, container *azcosmos.ContainerClient, options azcosmos.ChangeFeedOptions) ([]thing, *string) {
	t.Helper()
	found := []thing{}
	for {
		page, err := container.ReadChangeFeed(ctx, &options)
		must(t, err)
		for _, each := range page.Items {
			found = append(found, decoded[thing](t, each))
		}
		if page.ContinuationToken != "" {
			options.Continuation = &page.ContinuationToken
		}
		if page.Count == 0 {
			return found, options.Continuation
		}
	}
}

var everything = azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}

func TestChangeFeedOfRanges(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, threeRanges, nil)
		create(t, container, spread(40)...)
		ranges, err := container.ReadFeedRanges(ctx, nil)
		must(t, err)
		equal(t, 3, len(ranges))
		total := 0
		for _, each := range ranges {
			found, next := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &each, MaxItemCount: 5})
			total += len(found)
			more, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &each, Continuation: next})
			equal(t, 0, len(more))
		}
		equal(t, 40, total)
	})
}

func TestChangeFeedGoesOn(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, spread(10)...)
		found, next := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, MaxItemCount: 3})
		equal(t, 10, len(found))
		changed := thing{ID: "i003", Pk: "p3", N: 103}
		_, err := container.UpsertItem(ctx, keyed("p3"), encoded(t, changed), nil)
		must(t, err)
		found, _ = changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, Continuation: next})
		equal(t, []thing{changed}, found)
		key := keyed("p4")
		found, _ = changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, PartitionKey: &key})
		equal(t, []thing{{ID: "i004", Pk: "p4", N: 4}}, found)
	})
}

func TestChangeFeedFromATime(t *testing.T) {
	over(t, func(t *testing.T, a *account) {
		container := a.container(t, 0, nil)
		create(t, container, thing{ID: "1", Pk: "a"})
		past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		found, _ := changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, StartFrom: &past})
		equal(t, 1, len(found))
		found, _ = changes(t, container, azcosmos.ChangeFeedOptions{FeedRange: &everything, StartFrom: &future})
		equal(t, 0, len(found))
	})
}
