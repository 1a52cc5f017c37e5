//! Resolves computed properties of the container.

use std::sync::Arc;

use query::algebra::{ComputedProperty, Expr};

use super::super::{Environment, computed};
use super::{AggregateUse, Lowered, Lowering, Purpose};

impl Lowering<'_> {
    /// The expression, or the definition if it is a computed property of the item.
    pub(super) fn with_computed(&mut self, expr: Expr) -> Lowered<Expr> {
        if let Expr::Property { base, name } = &expr
            && let Expr::Variable(slot) = **base
            && self.items.contains(&slot)
            && let Some(property) = self.computed(name)?
        {
            return Ok(Expr::Computed(property));
        }
        Ok(expr)
    }

    fn computed(&mut self, name: &str) -> Lowered<Option<ComputedProperty>> {
        if let Some(known) = self.computed.get(name) {
            return Ok(Some(known.clone()));
        }
        let outer = self.environment;
        let definitions = &outer.computed;
        let Some((name, text)) = definitions.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        // Clients received an error for a wrong definition when they created it.
        let Ok((alias, value)) = computed::read(text) else { return Ok(None) };
        // A definition sees the item as it is stored.
        let environment = Environment { computed: Vec::new(), ..outer.clone() };
        let mut inner = Lowering::new(&[], &environment, Purpose::Running);
        inner.items.push(0);
        inner.variables.push(Some(alias));
        inner.aggregates = AggregateUse::Refused("computed property");
        let definition = Arc::new(inner.expr(&value)?);
        let property = ComputedProperty { name: Arc::from(name.as_str()), definition };
        self.computed.insert(name, property.clone());
        Ok(Some(property))
    }
}
