//! Offers: provisioned throughput as a resource.
