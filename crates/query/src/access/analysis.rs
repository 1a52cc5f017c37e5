//! Derives from a filter which terms an item must have.

use model::Value;

use super::Step;
use super::calls::constant_of;
use super::ranges::{OrderOp, ValueRanges, is_nan};
use super::set::{CandidateSet, Leaf};
use crate::Budget;
use crate::algebra::{BinaryOp, Expr, LikePattern, Relation, SubqueryForm};
use crate::plan::{Binding, Projection, Select};

/// Work granted to an analysis; conditions beyond it restrict nothing.
const ANALYSIS_STEPS: u64 = 1 << 20;

/// The analysis of one filter.
pub(super) struct Analysis<'a> {
    is_indexed: &'a dyn Fn(&[Step]) -> bool,
    budget: Budget,
    /// The path of each variable in the item; `None` if it is not a part of the item.
    variables: Vec<Option<ItemPath>>,
    /// How many values were numbered so far.
    values: usize,
}

/// A path into the item.
#[derive(Clone, Debug)]
pub(super) struct ItemPath {
    steps: Vec<Step>,
    /// As in [`Leaf`].
    value: Option<usize>,
    /// Whether an item has at most one value there.
    is_single: bool,
}

impl ItemPath {
    /// The elements of the array at this path.
    pub(super) fn elements(&self) -> Self {
        self.followed_by([Step::Elements])
    }

    /// This path with more steps. Unless bound to a variable, an array step means any element.
    pub(super) fn followed_by(&self, steps: impl IntoIterator<Item = Step>) -> Self {
        let mut item_path = self.clone();
        for step in steps {
            if !matches!(step, Step::Name(_)) {
                item_path.value = None;
            }
            item_path.steps.push(step);
        }
        item_path
    }
}

impl<'a> Analysis<'a> {
    pub(super) fn new(is_indexed: &'a dyn Fn(&[Step]) -> bool) -> Self {
        let item = ItemPath { steps: Vec::new(), value: Some(0), is_single: true };
        Self {
            is_indexed,
            budget: Budget::of_steps(ANALYSIS_STEPS),
            variables: vec![Some(item)],
            values: 1,
        }
    }

    /// The items for which a query has rows to project or group. Binds its variables.
    pub(super) fn select(&mut self, select: &Select) -> CandidateSet {
        let mut parts = self.bind(select);
        if let Some(filter) = select.filter() {
            parts.push(self.find(filter, true));
        }
        CandidateSet::all(parts)
    }

    /// Binds the variables of a query. Returns the conditions that its sources alone impose.
    pub(super) fn bind(&mut self, select: &Select) -> Vec<CandidateSet> {
        self.variables.resize(select.outer(), None);
        let mut parts = Vec::new();
        for binding in select.bindings() {
            let item_path = match binding {
                Binding::Value(value) => self.item_path_of(value),
                Binding::Elements(array) => self.item_path_of(array).map(|array| {
                    let value = Some(self.values);
                    self.values += 1;
                    ItemPath { value, is_single: false, ..array.elements() }
                }),
                Binding::Rows(inner) => {
                    let (found, item_path) = self.rows(inner);
                    parts.push(found);
                    item_path
                }
            };
            self.variables.push(item_path);
        }
        parts
    }

    /// The items for which a subquery has rows, and the path its rows come from.
    fn rows(&mut self, select: &Select) -> (CandidateSet, Option<ItemPath>) {
        let outer = select.outer().min(self.variables.len());
        let hidden = self.variables.split_off(outer);
        let found = self.select(select).inexact();
        let item_path = match select.projection() {
            Projection::Value(value) if select.grouping().is_none() => self.item_path_of(value),
            Projection::Value(_) | Projection::Fields(_) => None,
        };
        self.variables.truncate(outer);
        self.variables.extend(hidden);
        // Without keys there is one group even when there are no rows.
        let has_row_without_any = select.grouping().is_some_and(|group| group.keys.is_empty());
        (if has_row_without_any { CandidateSet::UNKNOWN } else { found }, item_path)
    }

    /// The items for which `expr` can be exactly `wanted`.
    pub(super) fn find(&mut self, expr: &Expr, wanted: bool) -> CandidateSet {
        if self.budget.spend(1).is_err() {
            return CandidateSet::UNKNOWN;
        }
        match expr {
            Expr::Constant(value) => {
                let truth = value.as_deref().and_then(Value::as_bool);
                if truth == Some(wanted) { CandidateSet::ALWAYS } else { CandidateSet::NEVER }
            }
            Expr::And(operands) | Expr::Or(operands) => {
                let parts = operands.iter().map(|operand| self.find(operand, wanted)).collect();
                let needs_all = matches!(expr, Expr::And(_)) == wanted;
                if needs_all { CandidateSet::all(parts) } else { CandidateSet::any(parts) }
            }
            Expr::Not(operand) => self.find(operand, !wanted),
            Expr::Binary { op, left, right } => self.find_binary(*op, left, right, wanted),
            Expr::Between { operand, low, high } => {
                let parts = vec![
                    self.compare(operand, OrderOp::GREATER_OR_EQUAL, low, wanted),
                    self.compare(operand, OrderOp::LESS_OR_EQUAL, high, wanted),
                ];
                if wanted { CandidateSet::all(parts) } else { CandidateSet::any(parts) }
            }
            Expr::In { needle, list } if wanted => self.find_in_list(needle, list),
            Expr::Like { operand, pattern } => self.find_like(operand, pattern, wanted),
            Expr::Call { function, args, .. } => self.find_call(function, args, wanted),
            Expr::Property { .. } | Expr::Element { .. } | Expr::Variable(_) => {
                self.matching(expr, || ValueRanges::equal_to(&Value::Bool(wanted)))
            }
            Expr::Conditional { condition, then, otherwise } => {
                self.find_choice(condition, then, otherwise, wanted)
            }
            Expr::Coalesce(first, second) => {
                let parts = vec![self.find(first, wanted), self.find(second, wanted)];
                CandidateSet::any(parts).inexact()
            }
            Expr::Subquery { form: SubqueryForm::Exists, select } if wanted => self.rows(select).0,
            Expr::Computed(property) => self.find(&property.definition, wanted),
            Expr::Typed { relation, left, right } if wanted => {
                self.find_typed(*relation, left, right)
            }
            // No query looks up tagged values: tables are searched by their keys.
            Expr::Typed { .. }
            | Expr::Untag(_)
            | Expr::In { .. }
            | Expr::Subquery { .. }
            | Expr::Unary { .. }
            | Expr::Random(_)
            // Documents have indexes of their own.
            | Expr::Matches(_)
            | Expr::SortValue(_)
            | Expr::UserFunction { .. }
            | Expr::Array(_)
            | Expr::Object(_) => CandidateSet::UNKNOWN,
        }
    }

    /// The value is that of the second operand if the condition is true, else of the third.
    pub(super) fn find_choice(
        &mut self,
        condition: &Expr,
        then: &Expr,
        otherwise: &Expr,
        wanted: bool,
    ) -> CandidateSet {
        let taken = vec![self.find(condition, true), self.find(then, wanted)];
        let parts = vec![CandidateSet::all(taken), self.find(otherwise, wanted)];
        CandidateSet::any(parts).inexact()
    }

    /// A comparison of values of one type agrees with the order of all values.
    fn find_typed(&mut self, relation: Relation, left: &Expr, right: &Expr) -> CandidateSet {
        let op = match relation {
            Relation::Equal => BinaryOp::Equal,
            Relation::NotEqual => return CandidateSet::UNKNOWN,
            Relation::Less => BinaryOp::Less,
            Relation::LessOrEqual => BinaryOp::LessOrEqual,
            Relation::Greater => BinaryOp::Greater,
            Relation::GreaterOrEqual => BinaryOp::GreaterOrEqual,
        };
        self.find_binary(op, left, right, true).inexact()
    }

    fn find_binary(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        wanted: bool,
    ) -> CandidateSet {
        match op {
            BinaryOp::Equal if wanted => self.equal(left, right),
            BinaryOp::NotEqual if !wanted => self.equal(left, right),
            BinaryOp::Less => self.ordered(left, OrderOp::LESS, right, wanted),
            BinaryOp::LessOrEqual => self.ordered(left, OrderOp::LESS_OR_EQUAL, right, wanted),
            BinaryOp::Greater => self.ordered(left, OrderOp::GREATER, right, wanted),
            BinaryOp::GreaterOrEqual => {
                self.ordered(left, OrderOp::GREATER_OR_EQUAL, right, wanted)
            }
            BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Add
            | BinaryOp::Subtract
            | BinaryOp::Multiply
            | BinaryOp::Divide
            | BinaryOp::Remainder
            | BinaryOp::Concat
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRight
            | BinaryOp::ShiftRightUnsigned => CandidateSet::UNKNOWN,
        }
    }

    /// The items for which two expressions, one of them a constant, are equal.
    pub(super) fn equal(&mut self, left: &Expr, right: &Expr) -> CandidateSet {
        match (left, right) {
            (Expr::Constant(None), _) | (_, Expr::Constant(None)) => CandidateSet::NEVER,
            (Expr::Constant(Some(value)), expr) | (expr, Expr::Constant(Some(value))) => {
                self.pay_for(value, |own| own.matching(expr, || ValueRanges::equal_to(value)))
            }
            _ => CandidateSet::UNKNOWN,
        }
    }

    /// The items for which two expressions, one of them a constant, are in this order or not.
    fn ordered(&mut self, left: &Expr, order: OrderOp, right: &Expr, wanted: bool) -> CandidateSet {
        if matches!(left, Expr::Constant(_)) {
            self.compare(right, order.mirrored(), left, wanted)
        } else {
            self.compare(left, order, right, wanted)
        }
    }

    /// The items for which a comparison of an expression with a constant is `wanted`.
    fn compare(
        &mut self,
        expr: &Expr,
        order: OrderOp,
        constant: &Expr,
        wanted: bool,
    ) -> CandidateSet {
        let Expr::Constant(value) = constant else { return CandidateSet::UNKNOWN };
        let Some(value) = value else { return CandidateSet::NEVER };
        if let Expr::Call { function, args, .. } = expr
            && let [a, b] = args.as_slice()
            && function.name() == "ST_DISTANCE"
            && let Some(distance) = value.as_f64()
            && order.is_below() == wanted
        {
            return self.find_near(function, a, b, distance);
        }
        let of_value = || match wanted {
            true => ValueRanges::compared_to(value, order),
            false if is_nan(value) => ValueRanges::numbers(),
            false => ValueRanges::compared_to(value, order.opposite()),
        };
        self.pay_for(value, |own| own.matching(expr, of_value))
    }

    fn find_in_list(&mut self, needle: &Expr, list: &[Expr]) -> CandidateSet {
        let constants: Option<Vec<_>> = list.iter().map(constant_of).collect();
        match constants {
            Some(constants) => self.equal_to_any(needle, constants.into_iter().flatten()),
            None => {
                CandidateSet::any(list.iter().map(|member| self.equal(needle, member)).collect())
            }
        }
    }

    /// The items for which an expression equals one of `values`.
    pub(super) fn equal_to_any<'v>(
        &mut self,
        expr: &Expr,
        values: impl Iterator<Item = &'v Value> + Clone,
    ) -> CandidateSet {
        let is_paid = values.clone().try_for_each(|value| self.budget.spend_copy_of(value));
        match is_paid {
            Ok(()) => self.matching(expr, || ValueRanges::equal_to_any(values)),
            Err(_) => CandidateSet::UNKNOWN,
        }
    }

    fn find_like(&mut self, operand: &Expr, pattern: &LikePattern, wanted: bool) -> CandidateSet {
        let matching = match pattern {
            LikePattern::Compiled(pattern) if wanted => match pattern.exact_text() {
                Some(text) => ValueRanges::equal_to(&Value::from(text)),
                None => {
                    let (prefix, is_all) = pattern.literal_prefix();
                    let matching = ValueRanges::starting_with(&prefix);
                    if is_all { matching } else { matching.inexact() }
                }
            },
            LikePattern::Compiled(_) | LikePattern::Computed { .. } => {
                ValueRanges::strings().inexact()
            }
        };
        self.matching(operand, || matching)
    }

    /// The result of `then`, once the work on a constant is paid for.
    pub(super) fn pay_for(
        &mut self,
        value: &Value,
        then: impl FnOnce(&mut Self) -> CandidateSet,
    ) -> CandidateSet {
        match self.budget.spend_copy_of(value) {
            Ok(()) => then(self),
            Err(_) => CandidateSet::UNKNOWN,
        }
    }

    /// The items that have a value in `matching` at the path of an expression.
    pub(super) fn matching(
        &mut self,
        expr: &Expr,
        matching: impl FnOnce() -> ValueRanges,
    ) -> CandidateSet {
        match self.item_path_of(expr) {
            Some(item_path) => self.terms(&item_path, matching()),
            None => CandidateSet::UNKNOWN,
        }
    }

    /// The items that have a value in `matching` at a path.
    pub(super) fn terms(&self, item_path: &ItemPath, matching: ValueRanges) -> CandidateSet {
        // The item itself has no term.
        let is_usable = matches!(item_path.steps.first(), Some(Step::Name(_)));
        if !is_usable || !(self.is_indexed)(&item_path.steps) {
            return CandidateSet::UNKNOWN;
        }
        CandidateSet::leaf(Leaf {
            path: item_path.steps.clone(),
            value: item_path.value,
            ranges: matching.ranges,
            is_exact: matching.is_exact && item_path.is_single,
        })
    }

    /// The path of an expression in the item.
    pub(super) fn item_path_of(&self, expr: &Expr) -> Option<ItemPath> {
        let (slot, steps) = steps_of(expr)?;
        let origin = self.variables.get(slot)?.as_ref()?;
        self.budget.spend((origin.steps.len() + steps.len()) as u64).ok()?;
        // Only one element is meant, but terms do not hold its number.
        let is_single = origin.is_single && !steps.contains(&Step::Elements);
        Some(ItemPath { is_single, ..origin.followed_by(steps) })
    }
}

/// The variable that a path begins with and the steps that follow.
pub(super) fn steps_of(expr: &Expr) -> Option<(usize, Vec<Step>)> {
    let mut steps = Vec::new();
    let mut at = expr;
    loop {
        if let Expr::Property { base, name } = at {
            steps.push(Step::Name(name.clone()));
            at = base;
        } else if let Expr::Element { base, index } = at
            && let Expr::Constant(Some(index)) = &**index
        {
            match index.as_str() {
                Some(name) => steps.push(Step::Name(name.to_owned())),
                None => steps.push(Step::Elements),
            }
            at = base;
        } else if let Expr::Computed(property) = at {
            at = &property.definition;
        } else if let Expr::Variable(slot) = at {
            steps.reverse();
            return Some((*slot, steps));
        } else {
            return None;
        }
    }
}
