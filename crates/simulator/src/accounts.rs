//! Compares the charges that clients received with those that the engine counted.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Catalog, Container, Engine};
use model::{Charge, ContainerRid};

/// Charges since the process started.
#[derive(Default)]
pub(crate) struct Accounts {
    /// The ranges that containers had then. The counts of a range are lost when it goes.
    routing_versions: BTreeMap<ContainerRid, u64>,
    charged: BTreeMap<ContainerRid, Charge>,
    /// Containers with requests that were never answered: the charges of those are not known.
    unknown: BTreeSet<ContainerRid>,
}

impl Accounts {
    /// Accounts that begin now.
    pub(crate) fn open(catalog: &Catalog) -> Self {
        let containers = catalog.databases().flat_map(|d| catalog.containers(d.rid));
        let routing_versions = containers.map(|c| (c.rid, c.routing().version())).collect();
        Self { routing_versions, ..Self::default() }
    }

    /// Counts the charge of an answered request.
    pub(crate) fn charge(&mut self, container: ContainerRid, charge: Charge) {
        *self.charged.entry(container).or_default() += charge;
    }

    /// Notes that a request was not answered.
    pub(crate) fn lose_track(&mut self, container: ContainerRid) {
        self.unknown.insert(container);
    }

    /// Checks that the sum over all ranges is what clients received, unless ranges have come and
    /// gone.
    pub(crate) fn check(&self, engine: &Engine, container: &Container) -> Result<(), String> {
        let began_with = self.routing_versions.get(&container.rid);
        let has_same_ranges = began_with == Some(&container.routing().version());
        if self.unknown.contains(&container.rid) || !has_same_ranges {
            return Ok(());
        }
        let told = self.charged.get(&container.rid).copied().unwrap_or_default();
        let usage = engine.usage(container);
        let counted: Charge = usage.iter().map(|(_, usage)| usage.consumed).sum();
        match told == counted {
            true => Ok(()),
            false => Err(format!(
                "requests to {} cost {told} by their answers, and {counted} by the meters",
                container.rid
            )),
        }
    }
}
