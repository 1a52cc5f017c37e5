//! What the caller of the compilers knows.

/// What is known when a filter, an expression or a pipeline is compiled.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Names of the variables of `let`. A variable's position is its slot in
    /// [`query::document::Variables::slots`].
    pub variables: Vec<String>,
}

impl CompileOptions {
    /// Options with more variables, whose slots follow those that there are. Later ones hide
    /// earlier ones of the same name.
    #[must_use]
    pub fn with_variables(&self, names: impl IntoIterator<Item = String>) -> Self {
        let variables = self.variables.iter().cloned().chain(names).collect();
        Self { variables }
    }

    /// The slot of the variable with this name.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable == name)
    }
}
