//! Which fields of an item a query reads, so that the others need not be read.

use model::json::FieldMask;

use crate::algebra::Expr;
use crate::plan::{Binding, Input, Plan, Projection, Select};

/// The fields of an item that each stage of a query reads.
#[derive(Clone, Debug)]
pub(crate) struct RequiredFields {
    /// To bind sources and test the filter.
    pub(crate) to_match: FieldMask,
    /// To build the sort key, or the group and the operands of aggregates, too.
    pub(crate) to_order: FieldMask,
    /// To write a row. An item that is returned whole is copied, not read.
    pub(crate) to_write: FieldMask,
}

impl RequiredFields {
    pub(crate) fn of(plan: &Plan) -> Self {
        let clauses = plan.clauses();
        let select = &clauses.select;
        let mut walk = TreeWalk::new(&clauses.input);
        walk.sources(select);
        let to_match = walk.field_mask.clone();
        let mut writing = walk.clone();
        match select.grouping() {
            // The values that are written and sorted then are variables of groups.
            Some(grouping) => {
                grouping.keys.iter().for_each(|key| walk.expr(key));
                grouping.aggregates.iter().for_each(|call| walk.expr(&call.operand));
            }
            None => {
                clauses.order.iter().for_each(|key| walk.expr(&key.expr));
                match select.is_distinct() {
                    // Rows are compared before they are written.
                    true => walk.values(select.projection()),
                    false => writing.output(select.projection()),
                }
            }
        }
        Self { to_match, to_order: walk.field_mask, to_write: writing.field_mask }
    }
}

impl Plan {
    /// The fields of an item that the filter reads.
    pub fn fields_to_match(&self) -> FieldMask {
        RequiredFields::of(self).to_match
    }
}

/// Collects the paths of expressions into the item.
#[derive(Clone)]
struct TreeWalk {
    field_mask: FieldMask,
    /// The path of each variable in the item; `None` if it is not a part of the item.
    origins: Vec<Option<Vec<String>>>,
}

impl TreeWalk {
    fn new(input: &Input) -> Self {
        let origins = match input {
            Input::Nothing => Vec::new(),
            Input::Items | Input::Rows(_) => vec![Some(Vec::new())],
        };
        Self { field_mask: FieldMask::NOTHING, origins }
    }

    /// Requires the whole value of `expr`.
    fn expr(&mut self, expr: &Expr) {
        if let Some((slot, path)) = path_of(expr) {
            if let Some(path) = self.item_path(slot, path) {
                self.field_mask.add(&path, FieldMask::All);
            }
        } else if let Expr::Matches(filter) = expr {
            filter.require(&mut self.field_mask);
        } else if let Expr::SortValue(value) = expr {
            value.require(&mut self.field_mask);
        } else if let Expr::Subquery { select, .. } = expr {
            self.select(select);
        } else {
            expr.for_each_child(&mut |child| self.expr(child));
        }
    }

    /// The path in the item of a path from a variable.
    fn item_path(&self, slot: usize, path: Vec<String>) -> Option<Vec<String>> {
        let origin = self.origins.get(slot)?.as_ref()?;
        Some(origin.iter().cloned().chain(path).collect())
    }

    fn select(&mut self, select: &Select) {
        let depth = self.origins.len();
        self.sources(select);
        if let Some(grouping) = select.grouping() {
            grouping.keys.iter().for_each(|key| self.expr(key));
            grouping.aggregates.iter().for_each(|call| self.expr(&call.operand));
            // The variables that follow are those of groups, which are not parts of the item.
            self.origins.truncate(select.outer());
        }
        self.values(select.projection());
        self.origins.truncate(depth);
    }

    /// The results of a projection, as values.
    fn values(&mut self, projection: &Projection) {
        match projection {
            Projection::Value(value) => self.expr(value),
            Projection::Fields(fields) => fields.iter().for_each(|(_, field)| self.expr(field)),
        }
    }

    /// The bindings, whose variables stay, and the filter.
    fn sources(&mut self, select: &Select) {
        self.origins.resize(select.outer(), None);
        for binding in select.bindings() {
            let origin = match binding {
                Binding::Value(expr) | Binding::Elements(expr) => self.origin_of(expr),
                Binding::Rows(inner) => {
                    self.select(inner);
                    None
                }
            };
            self.origins.push(origin);
        }
        select.filter().into_iter().for_each(|filter| self.expr(filter));
    }

    /// The origin of the value or elements of a source: the fields that are required of it are
    /// added where they are used.
    fn origin_of(&mut self, expr: &Expr) -> Option<Vec<String>> {
        let item_path = path_of(expr).and_then(|(slot, path)| self.item_path(slot, path));
        match &item_path {
            Some(path) => self.field_mask.add(path, FieldMask::NOTHING),
            None => self.expr(expr),
        }
        item_path
    }

    /// The results of a projection, as text.
    fn output(&mut self, projection: &Projection) {
        match projection {
            Projection::Value(value) => self.written(value),
            Projection::Fields(fields) => fields.iter().for_each(|(_, field)| self.written(field)),
        }
    }

    /// An expression that is written as text, as [`crate::write`] does it.
    fn written(&mut self, expr: &Expr) {
        if let Expr::Array(elements) = expr {
            elements.iter().for_each(|element| self.written(element));
        } else if let Expr::Object(fields) = expr {
            fields.iter().for_each(|(_, field)| self.written(field));
        } else if !matches!(expr, Expr::Variable(0)) {
            self.expr(expr);
        }
    }
}

/// The variable that a path begins with and the names that follow. Elements of arrays are required
/// as their array is.
fn path_of(expr: &Expr) -> Option<(usize, Vec<String>)> {
    let mut names = Vec::new();
    let mut at = expr;
    loop {
        if let Expr::Property { base, name } = at {
            names.push(name.clone());
            at = base;
        } else if let Expr::Element { base, index } = at
            && let Expr::Constant(Some(index)) = &**index
            && index.as_f64().is_some()
        {
            at = base;
        } else if let Expr::Variable(slot) = at {
            names.reverse();
            return Some((*slot, names));
        } else {
            return None;
        }
    }
}
