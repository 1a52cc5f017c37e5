//! What the process counts.

mod forms;

use api_nosql::{Observation, Observer};

pub(crate) use forms::{FormCounts, Forms};

/// Counts of all requests since the start.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) forms: Forms,
}

impl Observer for Requests {
    fn answered(&self, observation: &Observation) {
        self.forms.count(&observation.form);
    }
}
