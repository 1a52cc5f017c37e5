//! Which partition keys a filter can match, for routing a query and for the ranges of its plan.
//!
//! The answer is always a superset: an expression that is not understood restricts nothing.

use std::cmp::Ordering;

use model::order::TypeOrder;
use model::{PropertyPath, Value};

use crate::Budget;
use crate::algebra::{BinaryOp, Expr, LikePattern, Relation};
use crate::compare::{self, Class, class_of};
use crate::document::predicate::ValueTest;
use crate::document::{FieldPath, Predicate};
use crate::plan::{Input, Plan};

/// Largest number of different keys; a filter with more restricts nothing.
const KEYS_MAX: usize = 4096;
/// Work granted to combining conditions; conditions beyond it restrict nothing more.
const ANALYSIS_STEPS: u64 = 1 << 18;

/// The partition keys that rows of a query can have.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyScope {
    /// Any key.
    All,
    /// Only keys that begin with one of these, each one or more leading components long; no two are
    /// equal. Rows do not exist at all when empty.
    Keys(Vec<Vec<Option<Value>>>),
}

impl KeyScope {
    /// The one key of `components` components that rows can have, if there is just one.
    pub fn single_key(&self, components: usize) -> Option<&[Option<Value>]> {
        match self {
            KeyScope::Keys(keys) => match keys.as_slice() {
                [key] if key.len() == components => Some(key),
                _ => None,
            },
            KeyScope::All => None,
        }
    }
}

/// The value of each key path in one alternative of the filter: unknown, or pinned to a value
/// (`None` = the *undefined* key).
type Pins = Vec<Option<Option<Value>>>;

impl Plan {
    /// The values to which the filter pins every path, if it pins all of them to one value each.
    pub fn partition_key_filter(&self, paths: &[PropertyPath]) -> Option<Vec<Option<Value>>> {
        self.key_scope(paths).single_key(paths.len()).map(<[_]>::to_vec)
    }

    /// The keys or leading parts of keys to which the filter restricts rows. Any paths will do:
    /// with `/id` after the paths of the key, this finds the items of a read of many ids.
    pub fn key_scope(&self, paths: &[PropertyPath]) -> KeyScope {
        let clauses = self.clauses();
        match &clauses.input {
            Input::Nothing => return KeyScope::Keys(Vec::new()),
            Input::Rows(inner) => return inner.key_scope(paths),
            Input::Items => {}
        }
        let Some(filter) = clauses.select.filter() else { return KeyScope::All };
        let analysis = Analysis { paths, budget: Budget::of_steps(ANALYSIS_STEPS) };
        analysis.scope_of(analysis.alternatives_for(filter, true))
    }
}

/// Up to here every integer is exact as a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

struct Analysis<'a> {
    paths: &'a [PropertyPath],
    budget: Budget,
}

impl Analysis<'_> {
    /// The alternatives in which `expr` can be exactly `wanted`, as pins of key paths; none if it
    /// cannot be. Every item for which `expr` is `wanted` fits one of the alternatives.
    fn alternatives_for(&self, expr: &Expr, wanted: bool) -> Vec<Pins> {
        match expr {
            Expr::Constant(value) => {
                let holds = value.as_deref().and_then(Value::as_bool) == Some(wanted);
                if holds { self.unpinned() } else { Vec::new() }
            }
            Expr::And(operands) if wanted => self.all_of(self.of_each(operands, wanted)),
            Expr::Or(operands) if !wanted => self.all_of(self.of_each(operands, wanted)),
            Expr::And(operands) | Expr::Or(operands) => self.any_of(self.of_each(operands, wanted)),
            Expr::Matches(filter) if wanted => self.alternatives_matching(filter.predicate()),
            Expr::Not(operand) => self.alternatives_for(operand, !wanted),
            Expr::Binary { op: BinaryOp::Equal, left, right }
            | Expr::Typed { relation: Relation::Equal, left, right }
                if wanted =>
            {
                match (&**left, &**right) {
                    (Expr::Constant(value), other) | (other, Expr::Constant(value)) => {
                        self.alternatives_equal_to(other, value.as_deref())
                    }
                    _ => self.unpinned(),
                }
            }
            Expr::In { needle, list } if wanted => self.alternatives_in_list(needle, list),
            Expr::Like { operand, pattern: LikePattern::Compiled(pattern) } if wanted => {
                match pattern.exact_text() {
                    Some(text) => self.pin(operand, Some(&Value::String(text))),
                    None => self.unpinned(),
                }
            }
            Expr::Call { function, args, .. } => {
                self.alternatives_of_call(function.name(), args, wanted)
            }
            Expr::Property { .. } => self.pin(expr, Some(&Value::Bool(wanted))),
            Expr::Binary { .. }
            | Expr::Typed { .. }
            | Expr::Untag(_)
            | Expr::In { .. }
            | Expr::Like { .. }
            | Expr::Variable(_)
            | Expr::Element { .. }
            | Expr::Unary { .. }
            | Expr::Coalesce(..)
            | Expr::Conditional { .. }
            | Expr::Between { .. }
            | Expr::Array(_)
            | Expr::Object(_)
            | Expr::Random(_)
            | Expr::Matches(_)
            | Expr::SortValue(_)
            | Expr::UserFunction { .. }
            | Expr::Computed(_)
            | Expr::Subquery { .. } => self.unpinned(),
        }
    }

    /// The alternatives in which an expression can equal a value.
    fn alternatives_equal_to(&self, expr: &Expr, value: Option<&Value>) -> Vec<Pins> {
        if let Expr::Call { function, args, .. } = expr
            && let ("ABS", [arg]) = (function.name(), args.as_slice())
        {
            return match value.and_then(Value::as_f64) {
                // Beyond this, several integers have the same absolute value.
                Some(size) if size >= EXACT_MAX => self.unpinned(),
                Some(size) if size >= 0.0 => {
                    let mut alternatives = self.pin(arg, Some(&crate::eval::from_f64(size)));
                    alternatives.extend(self.pin(arg, Some(&crate::eval::from_f64(-size))));
                    self.bounded(alternatives)
                }
                Some(_) | None => Vec::new(),
            };
        }
        self.pin(expr, value)
    }

    fn alternatives_in_list(&self, needle: &Expr, list: &[Expr]) -> Vec<Pins> {
        let mut alternatives = Vec::with_capacity(list.len().min(KEYS_MAX));
        for member in list {
            let Expr::Constant(value) = member else { return self.unpinned() };
            alternatives.extend(self.pin(needle, value.as_deref()));
        }
        self.bounded(alternatives)
    }

    fn alternatives_of_call(&self, name: &str, args: &[Expr], wanted: bool) -> Vec<Pins> {
        match (name, args, wanted) {
            ("IS_NULL", [arg], true) => self.pin(arg, Some(&Value::Null)),
            ("IS_BOOL", [arg], true) => {
                let mut alternatives = self.pin(arg, Some(&Value::Bool(false)));
                alternatives.extend(self.pin(arg, Some(&Value::Bool(true))));
                self.bounded(alternatives)
            }
            ("IS_DEFINED", [arg], false) => self.pin_to_key(arg, None),
            (
                "ARRAY_CONTAINS" | "_TRY_ARRAY_CONTAINS",
                [Expr::Constant(Some(array)), needle],
                true,
            ) => {
                let elements = array.as_array().unwrap_or_default();
                let alternatives =
                    elements.iter().flat_map(|element| self.pin(needle, Some(element)));
                self.bounded(alternatives.collect())
            }
            _ => self.unpinned(),
        }
    }

    /// The alternatives of each operand.
    fn of_each<'e>(
        &'e self,
        operands: &'e [Expr],
        wanted: bool,
    ) -> impl Iterator<Item = Vec<Pins>> + 'e {
        operands.iter().map(move |operand| self.alternatives_for(operand, wanted))
    }

    /// The alternatives in which a document can match. Null matches what is missing, too, and
    /// values of the types that JSON lacks are not keys of queries: neither pins anything.
    fn alternatives_matching(&self, predicate: &Predicate) -> Vec<Pins> {
        let of_each = |parts: &[Predicate]| -> Vec<Vec<Pins>> {
            parts.iter().map(|part| self.alternatives_matching(part)).collect()
        };
        match predicate {
            Predicate::And(parts) => self.all_of(of_each(parts).into_iter()),
            Predicate::Or(parts) => self.any_of(of_each(parts).into_iter()),
            Predicate::Constant(value) => {
                if *value {
                    self.unpinned()
                } else {
                    Vec::new()
                }
            }
            Predicate::Field { path, test: ValueTest::Compare { relation, operand } }
                if *relation == Relation::Equal =>
            {
                self.pin_document(path, std::slice::from_ref(operand))
            }
            Predicate::Field { path, test: ValueTest::In(list) } if list.regexes().is_empty() => {
                self.pin_document(path, list.values())
            }
            Predicate::Field { .. }
            | Predicate::Not(_)
            | Predicate::Expression(_)
            | Predicate::Script(_)
            | Predicate::Sample { .. }
            | Predicate::Schema(_) => self.unpinned(),
        }
    }

    /// The alternatives where a path of documents has one of these values.
    fn pin_document(&self, path: &FieldPath, values: &[Value]) -> Vec<Pins> {
        let is_path = |key: &PropertyPath| {
            let names = path.parts().iter().map(|part| part.name.as_str());
            key.segments().iter().map(String::as_str).eq(names)
        };
        let Some(at) = self.paths.iter().position(is_path) else { return self.unpinned() };
        if values.len() > KEYS_MAX {
            return self.unpinned();
        }
        let mut alternatives = Vec::with_capacity(values.len());
        for value in values {
            let is_finite = value.as_f64().is_none_or(f64::is_finite);
            let is_simple =
                is_finite && matches!(class_of(value), Class::Bool | Class::Number | Class::String);
            // Minus zero equals zero, but is another key.
            let is_zero = value.as_f64() == Some(0.0);
            if !is_simple {
                return self.unpinned();
            }
            let mut pins = vec![None; self.paths.len()];
            if let Some(pin) = pins.get_mut(at) {
                *pin = Some(Some(if is_zero { Value::Int64(0) } else { value.clone() }));
            }
            alternatives.push(pins);
        }
        self.bounded(alternatives)
    }

    fn all_of(&self, operands: impl Iterator<Item = Vec<Pins>>) -> Vec<Pins> {
        let mut alternatives = self.unpinned();
        for more in operands {
            let combinations = alternatives.len().saturating_mul(more.len());
            // Leaving out an operand only widens the scope.
            if combinations > KEYS_MAX || self.budget.spend(combinations as u64).is_err() {
                continue;
            }
            let pairs = alternatives
                .iter()
                .flat_map(|alternative| more.iter().map(move |other| (alternative, other)));
            alternatives =
                pairs.filter_map(|(alternative, other)| self.merge(alternative, other)).collect();
        }
        alternatives
    }

    fn any_of(&self, operands: impl Iterator<Item = Vec<Pins>>) -> Vec<Pins> {
        let mut alternatives = Vec::new();
        for more in operands {
            alternatives.extend(more);
            if alternatives.len() > KEYS_MAX {
                break;
            }
        }
        self.bounded(alternatives)
    }

    /// These, or the one that restricts nothing if it is among them or they are too many.
    fn bounded(&self, alternatives: Vec<Pins>) -> Vec<Pins> {
        let restricts_nothing = |alternative: &Pins| alternative.iter().all(Option::is_none);
        if alternatives.len() > KEYS_MAX || alternatives.iter().any(restricts_nothing) {
            self.unpinned()
        } else {
            alternatives
        }
    }

    /// Both together; `None` if they contradict each other.
    fn merge(&self, a: &Pins, b: &Pins) -> Option<Pins> {
        a.iter()
            .zip(b)
            .map(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => self.is_same(a, b).then(|| Some(a.clone())),
                (Some(pin), None) | (None, Some(pin)) => Some(Some(pin.clone())),
                (None, None) => Some(None),
            })
            .collect()
    }

    fn is_same(&self, a: &Option<Value>, b: &Option<Value>) -> bool {
        match (a, b) {
            // Without budget, assuming equality keeps the scope wide enough.
            (Some(a), Some(b)) => compare::equals(a, b, &self.budget).unwrap_or(true),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The one alternative that restricts nothing.
    fn unpinned(&self) -> Vec<Pins> {
        vec![vec![None; self.paths.len()]]
    }

    /// The alternative where `expr` equals a constant. Nothing equals *undefined*; an item with an
    /// array or object as its key has the undefined key.
    fn pin(&self, expr: &Expr, value: Option<&Value>) -> Vec<Pins> {
        let Some(value) = value else { return Vec::new() };
        match class_of(value) {
            Class::Null | Class::Bool | Class::Number | Class::String => {
                self.pin_to_key(expr, Some(value.clone()))
            }
            Class::Array | Class::Object => self.pin_to_key(expr, None),
            Class::Foreign => self.unpinned(),
        }
    }

    /// The alternative where the key path of `expr` has this key, if `expr` is a key path.
    fn pin_to_key(&self, expr: &Expr, key: Option<Value>) -> Vec<Pins> {
        let mut pins = vec![None; self.paths.len()];
        if let Some(pin) = self.path_of(expr).and_then(|path| pins.get_mut(path)) {
            *pin = Some(key);
        }
        vec![pins]
    }

    /// The key path of `expr`, if it is one.
    fn path_of(&self, expr: &Expr) -> Option<usize> {
        let mut names = Vec::new();
        let mut at = expr;
        while let Expr::Property { base, name } = at {
            names.push(name.as_str());
            at = base;
        }
        if !matches!(at, Expr::Variable(0)) {
            return None;
        }
        self.paths.iter().position(|path| {
            path.segments().iter().map(String::as_str).eq(names.iter().rev().copied())
        })
    }

    /// The leading pins of each alternative; one without leading pins makes the whole scope
    /// unrestricted.
    fn scope_of(&self, alternatives: Vec<Pins>) -> KeyScope {
        let mut keys: Vec<Vec<Option<Value>>> = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            let key: Vec<Option<Value>> = alternative.into_iter().map_while(|pin| pin).collect();
            if key.is_empty() {
                return KeyScope::All;
            }
            keys.push(key);
        }
        keys.sort_by(|a, b| compare_keys(a, b));
        keys.dedup_by(|a, b| compare_keys(a, b).is_eq());
        KeyScope::Keys(keys)
    }
}

fn compare_keys(a: &[Option<Value>], b: &[Option<Value>]) -> Ordering {
    let component = |(a, b): (&Option<Value>, &Option<Value>)| {
        model::order::compare(TypeOrder::NoSql, a.as_ref(), b.as_ref())
    };
    let difference = a.iter().zip(b).map(component).find(|order| order.is_ne());
    difference.unwrap_or_else(|| a.len().cmp(&b.len()))
}
