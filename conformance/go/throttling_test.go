package conformance

import (
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Costs some hundreds of RU, so that 400 RU/s are exceeded at once.
var large = strings.Repeat("x", 500_000)

func TestTheSdkWaitsWhereThroughputIsExceeded(t *testing.T) {
	limited := serverOf(t)
	for _, transport := range []string{"http", "https"} {
		t.Run(transport, func(t *testing.T) {
			a := accountOf(t, limited, transport)
			container := a.container(t, 400, nil)
			item := func(id string) []byte {
				return encoded(t, map[string]string{"id": id, "pk": "a", "text": large})
			}
			refusals := 0
			hasty := a.seen(t, a.connect(t, limited.Key, withoutRetries()), container)
			for range 8 {
				if _, err := hasty.UpsertItem(ctx, keyed("a"), item("1"), nil); err != nil {
					refusal := refused(t, 429, err)
					that(t, refusal.RawResponse.Header.Get("x-ms-retry-after-ms") != "", "a time to wait")
					refusals++
				}
			}
			that(t, refusals > 0, "a refusal among eight large writes at once")
			var writers sync.WaitGroup
			errs := make([]error, 4)
			for n := range errs {
				writers.Add(1)
				go func() {
					defer writers.Done()
					small := encoded(t, thing{ID: newID("i"), Pk: "a", N: n})
					for range 40 {
						if _, errs[n] = container.UpsertItem(ctx, keyed("a"), small, &azcosmos.ItemOptions{}); errs[n] != nil {
							return
						}
					}
				}()
			}
			writers.Wait()
			for _, err := range errs {
				must(t, err)
			}
		})
	}
}
