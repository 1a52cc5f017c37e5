//! Lowers conditions to algebra.

use std::sync::Arc;

use model::edm::{PARTITION_KEY_FIELD, ROW_KEY_FIELD, field_of};
use model::order::TypeOrder;
use query::algebra::Expr;
use query::plan::{Clauses, Input, Plan, Projection, Select};

use super::{Condition, PARTITION_KEY, ROW_KEY, TIMESTAMP};

/// The query for whole items for which the conditions marked in `residual` are true: the parts of
/// `condition` if it is a conjunction, else the whole.
pub(super) fn plan_of(condition: &Condition, residual: &[bool]) -> Plan {
    let conjuncts = match condition {
        Condition::All(parts) => parts.as_slice(),
        Condition::Any(_) | Condition::Not(_) | Condition::Compare { .. } => {
            std::slice::from_ref(condition)
        }
    };
    let kept = conjuncts.iter().zip(residual).filter(|(_, is_kept)| **is_kept);
    let mut filters: Vec<Expr> = kept.map(|(part, _)| lowered(part)).collect();
    let filter = match filters.len() {
        0 | 1 => filters.pop(),
        _ => Some(Expr::And(filters)),
    };
    let select = Select::new(1, Vec::new(), filter, Projection::Value(Expr::Variable(0)));
    let input = Input::Items;
    let type_order = TypeOrder::NoSql;
    Plan::new(Clauses { input, select, order: Vec::new(), top: None, window: None, type_order })
}

fn lowered(condition: &Condition) -> Expr {
    match condition {
        Condition::All(parts) => Expr::And(parts.iter().map(lowered).collect()),
        Condition::Any(parts) => Expr::Or(parts.iter().map(lowered).collect()),
        Condition::Not(part) => Expr::Not(Box::new(lowered(part))),
        Condition::Compare { property, relation, literal } => Expr::Typed {
            relation: *relation,
            left: Box::new(property_of(property)),
            right: Box::new(Expr::Constant(Some(Arc::new(literal.clone())))),
        },
    }
}

/// Keys are plain strings and the timestamp is a date; all other properties are tagged.
fn property_of(name: &str) -> Expr {
    let field =
        |name: &str| Expr::Property { base: Box::new(Expr::Variable(0)), name: name.to_owned() };
    match name {
        PARTITION_KEY => field(PARTITION_KEY_FIELD),
        ROW_KEY => field(ROW_KEY_FIELD),
        TIMESTAMP => field(TIMESTAMP),
        _ => Expr::Untag(Box::new(field(&field_of(name)))),
    }
}
