//! Evaluates expressions and projections against one row.
//!
//! Values are borrowed from the item or the plan for as long as possible; only results of operators
//! are owned. Recursion is as deep as the expression, and compilers limit that depth.

mod fold;
mod number;
mod rows;
mod scope;
mod subquery;

use std::borrow::Cow;
use std::cmp::Ordering;

use model::{Object, Value};

use crate::algebra::{BinaryOp, Expr, LikePattern, UserFunctions};
use crate::functions::Args;
use crate::like::Pattern;
use crate::stopwatch::Phase;
use crate::{Budget, EvalError, compare};

pub(crate) use number::from_f64;
pub(crate) use rows::Flow;
pub(crate) use scope::Scope;

/// A value borrowed from the item or the plan, or a new one; `None` is *undefined*.
pub(crate) type Evaluated<'a> = Result<Option<Cow<'a, Value>>, EvalError>;

impl Expr {
    /// Whether this evaluates to exactly `true`.
    pub(crate) fn is_true(&self, scope: &Scope<'_>, budget: &Budget) -> Result<bool, EvalError> {
        Ok(self.truth(scope, budget)? == Some(true))
    }

    /// The truth of this as an operand of logic: everything but a boolean is unknown.
    ///
    /// Handles the most common parts of filters without creating a value for every step.
    fn truth(&self, scope: &Scope<'_>, budget: &Budget) -> Result<Option<bool>, EvalError> {
        if let Expr::And(operands) | Expr::Or(operands) = self {
            budget.spend(1)?;
            return all(operands, scope, budget, matches!(self, Expr::And(_)));
        }
        if let Expr::Binary { op, left, right } = self
            && let Some(holds) = comparison(*op)
            && let (Some(left), Some(right)) =
                (left.stored(scope, budget), right.stored(scope, budget))
        {
            budget.spend(1)?;
            return match (left?, right?) {
                (Some(left), Some(right)) => holds(left, right, budget),
                _ => Ok(None),
            };
        }
        Ok(self.eval(scope, budget)?.and_then(|value| value.as_bool()))
    }

    /// The value of a constant or of a path into a variable; `None` for other expressions.
    fn stored<'a>(
        &'a self,
        scope: &Scope<'a>,
        budget: &Budget,
    ) -> Option<Result<Option<&'a Value>, EvalError>> {
        let value = if let Expr::Constant(value) = self {
            value.as_deref()
        } else if let Expr::Variable(slot) = self {
            scope.get(*slot)
        } else if let Expr::Property { base, name } = self {
            match base.stored(scope, budget)? {
                Ok(base) => base.and_then(|base| base.field(name)),
                failed @ Err(_) => return Some(failed),
            }
        } else {
            return None;
        };
        Some(budget.spend(1).map(|()| value))
    }

    /// The value of this expression in `scope`.
    pub(crate) fn eval<'a>(&'a self, scope: &'a Scope<'a>, budget: &Budget) -> Evaluated<'a> {
        budget.spend(1)?;
        match self {
            Expr::Constant(value) => Ok(value.as_deref().map(Cow::Borrowed)),
            Expr::Variable(slot) => Ok(scope.get(*slot).map(Cow::Borrowed)),
            Expr::Property { base, name } => Ok(base.eval(scope, budget)?.and_then(|base| {
                step(base, |value| value.field(name), |value| take_field(value, name))
            })),
            Expr::Element { base, index } => element(base, index, scope, budget),
            Expr::Unary { op, operand } => {
                let operand = operand.eval(scope, budget)?;
                Ok(owned(operand.and_then(|operand| number::unary(*op, &operand))))
            }
            Expr::Binary { op, left, right } => {
                let (left, right) = (left.eval(scope, budget)?, right.eval(scope, budget)?);
                match (left, right) {
                    (Some(left), Some(right)) => binary(*op, left, right, budget),
                    _ => Ok(None),
                }
            }
            Expr::And(operands) => Ok(boolean(all(operands, scope, budget, true)?)),
            Expr::Or(operands) => Ok(boolean(all(operands, scope, budget, false)?)),
            Expr::Not(operand) => Ok(boolean(operand.truth(scope, budget)?.map(|truth| !truth))),
            Expr::Untag(operand) => Ok(match operand.eval(scope, budget)? {
                Some(value) => {
                    budget.spend_copy_of(&value)?;
                    owned(model::edm::untag(&value))
                }
                None => None,
            }),
            Expr::Typed { relation, left, right } => {
                let (left, right) = (left.eval(scope, budget)?, right.eval(scope, budget)?);
                let is_true = match (left, right) {
                    (Some(left), Some(right)) => {
                        let order = compare::typed_order(&left, &right, budget)?;
                        order.is_some_and(|order| relation.holds(order))
                    }
                    _ => false,
                };
                Ok(boolean(Some(is_true)))
            }
            Expr::Coalesce(first, second) => match first.eval(scope, budget)? {
                Some(value) => Ok(Some(value)),
                None => second.eval(scope, budget),
            },
            Expr::Conditional { condition, then, otherwise } => {
                if condition.is_true(scope, budget)? {
                    then.eval(scope, budget)
                } else {
                    otherwise.eval(scope, budget)
                }
            }
            Expr::In { needle, list } => is_member(needle, list, scope, budget),
            Expr::Between { operand, low, high } => between(operand, low, high, scope, budget),
            Expr::Like { operand, pattern } => like(operand, pattern, scope, budget),
            Expr::UserFunction { name, args, functions } => {
                user_function(name, args, functions.as_ref(), scope, budget)
            }
            Expr::Computed(property) => property.definition.eval(scope, budget),
            Expr::Matches(filter) => match scope.get(0) {
                Some(item) => Ok(boolean(Some(filter.matches(item)?))),
                None => Ok(None),
            },
            Expr::SortValue(value) => match scope.get(0) {
                Some(item) => value.value(item),
                None => Ok(None),
            },
            Expr::Random(source) => Ok(owned(Some(Value::Double(source.next())))),
            Expr::Call { function, args, prepared } => {
                let args = args
                    .iter()
                    .map(|arg| arg.eval(scope, budget))
                    .collect::<Result<Vec<_>, _>>()?;
                let args = Args::new(&args, prepared.as_ref());
                let result = budget.call(Phase::SystemFunctions, || function.call(&args, budget));
                Ok(owned(result?))
            }
            Expr::Array(elements) => array(elements, scope, budget),
            Expr::Object(fields) => object(fields, scope, budget),
            Expr::Subquery { form, select } => subquery::eval(*form, select, scope, budget),
        }
    }
}

/// Calls a user-defined function. The runtime that executes it limits its work; this pays for its
/// arguments and result.
fn user_function<'a>(
    name: &str,
    args: &'a [Expr],
    functions: Option<&UserFunctions>,
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let Some(functions) = functions else { return Ok(None) };
    let args = args.iter().map(|arg| arg.eval(scope, budget)).collect::<Result<Vec<_>, _>>()?;
    let given: Vec<_> = args.iter().map(Option::as_deref).collect();
    for value in given.iter().flatten() {
        budget.spend_copy_of(value)?;
    }
    let result = budget.call(Phase::UserFunctions, || functions.0.call(name, &given))?;
    if let Some(value) = &result {
        budget.spend_copy_of(value)?;
    }
    Ok(owned(result))
}

/// An object of the fields that are defined.
pub(crate) fn object<'a>(
    fields: &'a [(String, Expr)],
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let mut object = Object::with_capacity(fields.len());
    for (name, field) in fields {
        if let Some(value) = field.eval(scope, budget)? {
            // The search for an earlier field of this name is linear.
            budget.spend(object.len() as u64 / 8)?;
            budget.spend_bytes(name.len())?;
            object.insert(name.as_str(), into_owned(value, budget)?);
        }
    }
    Ok(owned(Some(Value::Object(object))))
}

/// An owned value, paying for the copy when it was borrowed.
pub(crate) fn into_owned(value: Cow<'_, Value>, budget: &Budget) -> Result<Value, EvalError> {
    match value {
        Cow::Borrowed(value) => budget.clone_value(value),
        Cow::Owned(value) => Ok(value),
    }
}

fn owned<'a>(value: Option<Value>) -> Option<Cow<'a, Value>> {
    value.map(Cow::Owned)
}

fn boolean<'a>(truth: Option<bool>) -> Option<Cow<'a, Value>> {
    owned(truth.map(Value::Bool))
}

/// Takes one step into a value, keeping the borrow if there is one.
fn step<'a>(
    base: Cow<'a, Value>,
    look: impl FnOnce(&'a Value) -> Option<&'a Value>,
    take: impl FnOnce(Value) -> Option<Value>,
) -> Option<Cow<'a, Value>> {
    match base {
        Cow::Borrowed(value) => look(value).map(Cow::Borrowed),
        Cow::Owned(value) => take(value).map(Cow::Owned),
    }
}

fn take_field(value: Value, name: &str) -> Option<Value> {
    if let Value::Object(mut object) = value { object.remove(name) } else { None }
}

fn take_element(value: Value, at: usize) -> Option<Value> {
    if let Value::Array(mut elements) = value {
        (at < elements.len()).then(|| elements.swap_remove(at))
    } else {
        None
    }
}

fn element<'a>(
    base: &'a Expr,
    index: &'a Expr,
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let (base, index) = (base.eval(scope, budget)?, index.eval(scope, budget)?);
    let (Some(base), Some(index)) = (base, index) else { return Ok(None) };
    if let Some(name) = index.as_str() {
        return Ok(step(base, |value| value.field(name), |value| take_field(value, name)));
    }
    let Some(at) = index.as_i64().and_then(|at| usize::try_from(at).ok()) else { return Ok(None) };
    Ok(step(base, |value| value.as_array()?.get(at), |value| take_element(value, at)))
}

fn binary<'a>(
    op: BinaryOp,
    left: Cow<'a, Value>,
    right: Cow<'a, Value>,
    budget: &Budget,
) -> Evaluated<'a> {
    if let Some(holds) = comparison(op) {
        return Ok(boolean(holds(&left, &right, budget)?));
    }
    if op == BinaryOp::Concat {
        return concat(left, &right, budget);
    }
    Ok(owned(number::binary(op, &left, &right)))
}

/// Whether two values compare in some way; `None` is *undefined*.
type Comparison = fn(&Value, &Value, &Budget) -> Result<Option<bool>, EvalError>;

/// The comparison that an operator performs, if it is one.
fn comparison(op: BinaryOp) -> Option<Comparison> {
    Some(match op {
        BinaryOp::Equal => |a, b, budget| Ok(Some(compare::equals(a, b, budget)?)),
        BinaryOp::NotEqual => |a, b, budget| Ok(Some(!compare::equals(a, b, budget)?)),
        BinaryOp::Less => |a, b, budget| ordered(a, b, budget, Ordering::is_lt),
        BinaryOp::LessOrEqual => |a, b, budget| ordered(a, b, budget, Ordering::is_le),
        BinaryOp::Greater => |a, b, budget| ordered(a, b, budget, Ordering::is_gt),
        BinaryOp::GreaterOrEqual => |a, b, budget| ordered(a, b, budget, Ordering::is_ge),
        BinaryOp::Add
        | BinaryOp::Subtract
        | BinaryOp::Multiply
        | BinaryOp::Divide
        | BinaryOp::Remainder
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight
        | BinaryOp::ShiftRightUnsigned
        | BinaryOp::Concat => return None,
    })
}

fn ordered(
    a: &Value,
    b: &Value,
    budget: &Budget,
    test: fn(Ordering) -> bool,
) -> Result<Option<bool>, EvalError> {
    Ok(compare::order(a, b, budget)?.map(|order| order.is_some_and(test)))
}

/// Appends in place where the left side is owned, so that a chain costs only its length.
fn concat<'a>(left: Cow<'a, Value>, right: &Value, budget: &Budget) -> Evaluated<'a> {
    let Some(suffix) = right.as_str() else { return Ok(None) };
    if left.as_str().is_none() {
        return Ok(None);
    }
    budget.spend_bytes(suffix.len())?;
    let mut text = into_owned(left, budget)?;
    if let Value::String(text) = &mut text {
        text.push_str(suffix);
    }
    Ok(owned(Some(text)))
}

/// AND (`identity` true) or OR (`identity` false): the opposite of the identity decides; an unknown
/// operand makes an undecided result unknown.
fn all(
    operands: &[Expr],
    scope: &Scope<'_>,
    budget: &Budget,
    identity: bool,
) -> Result<Option<bool>, EvalError> {
    let mut is_unknown = false;
    for operand in operands {
        match operand.truth(scope, budget)? {
            Some(truth) if truth != identity => return Ok(Some(truth)),
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    Ok((!is_unknown).then_some(identity))
}

fn is_member<'a>(
    needle: &'a Expr,
    list: &'a [Expr],
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let Some(needle) = needle.eval(scope, budget)? else { return Ok(None) };
    let mut is_unknown = false;
    for member in list {
        match member.eval(scope, budget)? {
            Some(member) if compare::equals(&needle, &member, budget)? => {
                return Ok(boolean(Some(true)));
            }
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    Ok(boolean((!is_unknown).then_some(false)))
}

fn between<'a>(
    operand: &'a Expr,
    low: &'a Expr,
    high: &'a Expr,
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let operand = operand.eval(scope, budget)?;
    let holds = |bound: &'a Expr, test: fn(Ordering) -> bool| {
        let (Some(operand), Some(bound)) = (&operand, bound.eval(scope, budget)?) else {
            return Ok(None);
        };
        ordered(operand, &bound, budget, test)
    };
    let (above, below) = (holds(low, Ordering::is_ge)?, holds(high, Ordering::is_le)?);
    Ok(boolean(match (above, below) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, _) | (_, None) => None,
    }))
}

fn like<'a>(
    operand: &'a Expr,
    pattern: &'a LikePattern,
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    let Some(operand) = operand.eval(scope, budget)? else { return Ok(None) };
    let Some(text) = operand.as_str() else { return Ok(None) };
    match pattern {
        LikePattern::Compiled(pattern) => Ok(boolean(Some(pattern.matches(text, budget)?))),
        LikePattern::Computed { text: source, escape } => {
            let Some(source) = source.eval(scope, budget)? else { return Ok(None) };
            let Some(source) = source.as_str() else { return Ok(None) };
            budget.spend_bytes(source.len())?;
            Ok(boolean(Some(Pattern::compile(source, *escape).matches(text, budget)?)))
        }
    }
}

fn array<'a>(elements: &'a [Expr], scope: &'a Scope<'a>, budget: &Budget) -> Evaluated<'a> {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        if let Some(value) = element.eval(scope, budget)? {
            values.push(into_owned(value, budget)?);
        }
    }
    Ok(owned(Some(Value::Array(values))))
}

/// Whether JSON can carry every number in `value`.
pub(crate) fn is_finite(value: &Value) -> bool {
    if let Value::Double(number) = value {
        return number.is_finite();
    }
    if let Some(elements) = value.as_array() {
        return elements.iter().all(is_finite);
    }
    value.as_object().is_none_or(|object| object.iter().all(|(_, field)| is_finite(field)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const OPERATORS: [BinaryOp; 8] = [
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
        BinaryOp::Add,
        BinaryOp::Concat,
    ];

    fn constant(value: Option<&Value>) -> Expr {
        Expr::Constant(value.map(|value| Arc::new(value.clone())))
    }

    /// An expression for the same value that evaluates to a new one.
    fn made(value: Option<&Value>) -> Expr {
        let (then, otherwise) = (Box::new(constant(value)), Box::new(constant(None)));
        Expr::Conditional {
            condition: Box::new(Expr::Not(Box::new(constant(Some(&false.into()))))),
            then,
            otherwise,
        }
    }

    fn field(name: &str) -> Expr {
        Expr::Property { base: Box::new(Expr::Variable(0)), name: name.to_owned() }
    }

    /// Filters take a shortcut that projections do not.
    #[test]
    fn a_filter_holds_of_what_a_projection_shows_as_true() {
        let values = [
            None,
            Some(Value::Null),
            Some(true.into()),
            Some(Value::Int64(3)),
            Some(Value::Double(3.0)),
            Some(Value::Double(f64::NAN)),
            Some("three".into()),
            Some(Value::Array(vec![Value::Int64(3)])),
            Some(Value::Object(Object::new())),
        ];
        for left in &values {
            let mut item = Object::new();
            if let Some(left) = left {
                item.insert("left", left.clone());
            }
            let item = Value::Object(item);
            let scope = Scope::of_item(&item);
            for right in &values {
                for op in OPERATORS {
                    for right in [constant(right.as_ref()), made(right.as_ref())] {
                        let (left, right) = (Box::new(field("left")), Box::new(right));
                        let compared = Expr::Binary { op, left, right };
                        check(&compared, &scope);
                        check(
                            &Expr::And(vec![constant(Some(&true.into())), compared.clone()]),
                            &scope,
                        );
                        check(&Expr::Or(vec![constant(Some(&false.into())), compared]), &scope);
                    }
                }
            }
        }
    }

    #[track_caller]
    fn check(expr: &Expr, scope: &Scope<'_>) {
        let budget = Budget::per_item();
        let shown = expr.eval(scope, &budget).unwrap();
        let expected = shown.and_then(|value| value.as_bool());
        assert_eq!(expr.truth(scope, &budget).unwrap(), expected, "{expr:?}");
    }

    #[test]
    fn the_short_way_is_paid_for() {
        let item = Value::Object(Object::new());
        let compared = |right| Expr::Binary {
            op: BinaryOp::Less,
            left: Box::new(field("left")),
            right: Box::new(right),
        };
        let filter = Expr::And(vec![compared(constant(Some(&Value::Null)))]);
        let of_steps = |steps| filter.truth(&Scope::of_item(&item), &Budget::of_steps(steps));
        assert!(of_steps(5).is_ok());
        assert!(of_steps(4).is_err());
    }
}
