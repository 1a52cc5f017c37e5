//! Evaluates expressions and projections against one row.
//!
//! Values are borrowed from the item or the plan for as long as possible; only what an operator
//! makes is owned. Recursion is as deep as the expression, which compilers bound.

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

/// A value borrowed from the item or the plan, or made on the way; `None` is *undefined*.
pub(crate) type Evaluated<'a> = Result<Option<Cow<'a, Value>>, EvalError>;

impl Expr {
    /// Whether this evaluates to exactly `true`.
    pub(crate) fn is_true(&self, scope: &Scope<'_>, budget: &Budget) -> Result<bool, EvalError> {
        Ok(self.truth(scope, budget)? == Some(true))
    }

    /// The truth of this as an operand of logic: everything but a boolean is unknown.
    fn truth(&self, scope: &Scope<'_>, budget: &Budget) -> Result<Option<bool>, EvalError> {
        Ok(self.eval(scope, budget)?.and_then(|value| value.as_bool()))
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
            Expr::And(operands) => all(operands, scope, budget, true),
            Expr::Or(operands) => all(operands, scope, budget, false),
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

/// A call of a function that is not ours. What it may use is limited where it runs; what goes in
/// and comes out is paid for here.
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

/// The fields that are defined, as an object.
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

/// A value of its own, paying for the copy when it was borrowed.
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

/// Goes one step into a value, keeping the borrow if there is one.
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
    let ordered = |test: fn(Ordering) -> bool| -> Evaluated<'a> {
        let order = compare::order(&left, &right, budget)?;
        Ok(boolean(order.map(|order| order.is_some_and(test))))
    };
    match op {
        BinaryOp::Equal => Ok(boolean(Some(compare::equals(&left, &right, budget)?))),
        BinaryOp::NotEqual => Ok(boolean(Some(!compare::equals(&left, &right, budget)?))),
        BinaryOp::Less => ordered(Ordering::is_lt),
        BinaryOp::LessOrEqual => ordered(Ordering::is_le),
        BinaryOp::Greater => ordered(Ordering::is_gt),
        BinaryOp::GreaterOrEqual => ordered(Ordering::is_ge),
        BinaryOp::Concat => concat(left, &right, budget),
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
        | BinaryOp::ShiftRightUnsigned => Ok(owned(number::binary(op, &left, &right))),
    }
}

/// Appends in place where the left side is already our own, so that a chain costs its length.
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

/// AND (`identity` true) or OR (`identity` false): the opposite of the identity decides, an
/// unknown operand makes an undecided result unknown.
fn all<'a>(
    operands: &'a [Expr],
    scope: &'a Scope<'a>,
    budget: &Budget,
    identity: bool,
) -> Evaluated<'a> {
    let mut is_unknown = false;
    for operand in operands {
        match operand.truth(scope, budget)? {
            Some(truth) if truth != identity => return Ok(boolean(Some(truth))),
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    Ok(boolean((!is_unknown).then_some(identity)))
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
        Ok(compare::order(operand, &bound, budget)?.map(|order| order.is_some_and(test)))
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
