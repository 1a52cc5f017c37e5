//! What an index can do for a plan, condition by condition: for explanations of plans, and for
//! clients that ask for index metrics.

use crate::access::{IndexSet, Step, Terms, conjuncts_of};
use crate::algebra::{BinaryOp, Expr};
use crate::plan::{Input, Plan, Projection};
use crate::text;

/// A condition of a filter that all rows meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Conjunct {
    /// The text of the condition, or its beginning.
    pub text: String,
    /// The items for which it can be true, as far as indexes can tell.
    pub index_set: IndexSet,
    /// Paths without an index that would be looked up if they had one.
    pub unindexed: Vec<Vec<Step>>,
    /// The path and kind of its comparison with a constant, if it is just that.
    pub comparison: Option<(Vec<Step>, Comparison)>,
}

/// How a condition compares a value with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// For equality.
    Equal,
    /// For less or greater.
    Ordered,
}

impl Plan {
    /// The conditions that the rows of the items of this plan meet. Their texts have at most
    /// `chars_max` characters.
    pub fn conjuncts(
        &self,
        is_indexed: &dyn Fn(&[Step]) -> bool,
        chars_max: usize,
    ) -> Vec<Conjunct> {
        let select = &self.clauses().select;
        match &self.clauses().input {
            Input::Nothing => return Vec::new(),
            Input::Rows(inner) => return inner.conjuncts(is_indexed, chars_max),
            Input::Items => {}
        }
        let known = conjuncts_of(select, is_indexed);
        let possible = conjuncts_of(select, &|_| true);
        let parts = known.into_iter().zip(possible);
        parts
            .map(|((expr, index_set), (_, possible))| {
                let mut unindexed = Vec::new();
                possible.for_each_terms(&mut |terms| {
                    if !is_indexed(&terms.path) && !unindexed.contains(&terms.path) {
                        unindexed.push(terms.path.clone());
                    }
                });
                let text = text::expr_text(select, expr, chars_max);
                Conjunct { text, index_set, unindexed, comparison: comparison_of(expr) }
            })
            .collect()
    }

    /// The filter as text, or its beginning.
    pub fn filter_text(&self, chars_max: usize) -> Option<String> {
        let select = &self.clauses().select;
        select.filter().map(|filter| text::expr_text(select, filter, chars_max))
    }
}

impl IndexSet {
    /// Calls `visit` with all terms of the set.
    pub fn for_each_terms<'a>(&'a self, visit: &mut dyn FnMut(&'a Terms)) {
        match self {
            IndexSet::Everything | IndexSet::Nothing => {}
            IndexSet::Terms(terms) => visit(terms),
            IndexSet::All(parts) | IndexSet::Any(parts) => {
                parts.iter().for_each(|part| part.for_each_terms(visit));
            }
        }
    }
}

/// A path in the syntax of indexing policies, without the mark at its end.
pub fn path_text(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            // A spatial index has the path of its geometries.
            Step::Cells(_) => {}
            Step::Elements => out.push_str("/[]"),
            Step::Name(name) if is_plain(name) => {
                out.push('/');
                out.push_str(name);
            }
            Step::Name(name) => {
                out.push_str("/\"");
                out.push_str(&name.replace('\\', "\\\\").replace('"', "\\\""));
                out.push('"');
            }
        }
    }
    out
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The paths of items that functions and aggregates of a select list are over.
pub fn projected_paths(plan: &Plan) -> Vec<Vec<Step>> {
    let select = plan.select();
    let projected = match select.projection() {
        Projection::Value(value) => vec![value],
        Projection::Fields(fields) => fields.iter().map(|(_, value)| value).collect(),
    };
    let mut paths: Vec<Vec<Step>> = Vec::new();
    let mut add = |expr: &Expr| {
        if let Some(path) = crate::access::names_of(expr).filter(|path| !path.is_empty())
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    };
    for value in projected {
        for_each_argument(value, &mut add);
    }
    if let Some(grouping) = select.grouping() {
        grouping.aggregates.iter().for_each(|call| add(&call.operand));
    }
    paths
}

/// Visits the arguments of all calls of built-in functions in an expression.
fn for_each_argument(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    if let Expr::Call { args, .. } = expr {
        args.iter().for_each(&mut *visit);
    }
    expr.for_each_child(&mut |child| for_each_argument(child, visit));
}

fn comparison_of(expr: &Expr) -> Option<(Vec<Step>, Comparison)> {
    if let Expr::Between { operand, low, high } = expr {
        let is_constant = [low, high].iter().all(|bound| matches!(***bound, Expr::Constant(_)));
        return is_constant
            .then(|| Some((crate::access::names_of(operand)?, Comparison::Ordered)))?;
    }
    let Expr::Binary { op, left, right } = expr else { return None };
    let comparison = match op {
        BinaryOp::Equal => Comparison::Equal,
        BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual => {
            Comparison::Ordered
        }
        BinaryOp::NotEqual
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
        | BinaryOp::ShiftRightUnsigned => return None,
    };
    let side = match (&**left, &**right) {
        (Expr::Constant(_), other) | (other, Expr::Constant(_)) => other,
        _ => return None,
    };
    Some((crate::access::names_of(side)?, comparison))
}

#[cfg(test)]
mod tests {
    use model::Value;

    use super::*;
    use crate::algebra::LikePattern;
    use crate::like::Pattern;
    use crate::plan::{Binding, Clauses, Projection, Select};
    use crate::{Budget, functions};

    fn path(names: &[&str]) -> Expr {
        names.iter().fold(Expr::Variable(0), |base, name| Expr::Property {
            base: Box::new(base),
            name: (*name).to_owned(),
        })
    }

    fn constant(value: impl Into<Value>) -> Box<Expr> {
        Box::new(Expr::Constant(Some(std::sync::Arc::new(value.into()))))
    }

    fn binary(op: BinaryOp, left: Expr, value: impl Into<Value>) -> Expr {
        Expr::Binary { op, left: Box::new(left), right: constant(value) }
    }

    fn plan(bindings: Vec<Binding>, filter: Expr) -> Plan {
        let projection = Projection::Value(Expr::Variable(0));
        let select = Select::new(1, bindings, Some(filter), projection);
        let input = Input::Items;
        let type_order = model::order::TypeOrder::NoSql;
        Plan::new(Clauses { input, select, order: Vec::new(), top: None, window: None, type_order })
    }

    #[test]
    fn each_condition_says_what_it_needs() {
        let contains = functions::lookup("CONTAINS").unwrap();
        let contains =
            Expr::call(contains, vec![path(&["odd name"]), *constant("x")]).expect("a call");
        let filter = Expr::And(vec![
            binary(BinaryOp::Equal, path(&["a", "b"]), 1_i64),
            binary(BinaryOp::Less, path(&["c"]), "x"),
            binary(BinaryOp::Equal, Expr::Variable(1), "t"),
            contains,
        ]);
        let plan = plan(vec![Binding::Elements(path(&["tags"]))], filter);
        let is_c = |path: &[Step]| path == [Step::Name("c".to_owned())];
        let conjuncts = plan.conjuncts(&|path| !is_c(path), 100);
        let texts: Vec<_> = conjuncts.iter().map(|conjunct| conjunct.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "(ROOT.a.b = 1)",
                "(ROOT.c < \"x\")",
                "(ROOT.tags[] = \"t\")",
                "CONTAINS(ROOT[\"odd name\"], \"x\")"
            ]
        );
        let paths = |conjunct: &Conjunct| {
            let mut paths = Vec::new();
            conjunct.index_set.for_each_terms(&mut |terms| paths.push(path_text(&terms.path)));
            paths
        };
        assert_eq!(paths(&conjuncts[0]), ["/a/b"]);
        assert_eq!(paths(&conjuncts[2]), ["/tags/[]"]);
        assert_eq!(paths(&conjuncts[3]), ["/\"odd name\""]);
        assert_eq!(conjuncts[1].index_set, IndexSet::Everything);
        assert_eq!(conjuncts[1].unindexed, [vec![Step::Name("c".to_owned())]]);
        assert!([0, 2, 3].iter().all(|at| conjuncts[*at].unindexed.is_empty()));
        let kinds: Vec<_> =
            conjuncts.iter().map(|c| c.comparison.as_ref().map(|(_, kind)| *kind)).collect();
        assert_eq!(kinds, [Some(Comparison::Equal), Some(Comparison::Ordered), None, None]);
    }

    #[test]
    fn long_conditions_are_cut() {
        let filter = binary(BinaryOp::Equal, path(&["a"]), "x".repeat(1000));
        let text = plan(Vec::new(), filter).filter_text(30).unwrap();
        assert_eq!(text.chars().count(), 30);
        assert!(text.starts_with("(ROOT.a = \"xxx") && text.ends_with("..."), "{text}");
    }

    #[test]
    fn patterns_are_shown_so_that_they_mean_the_same() {
        let pattern = Pattern::compile("a!%b%_[^x-z]", Some('!'));
        let again = Pattern::compile(&pattern.to_text(), None);
        for text in ["a%bqw", "a%bxxqa", "acbqw", "a%bx", "a%b_y"] {
            let matches = |pattern: &Pattern| pattern.matches(text, &Budget::per_item()).unwrap();
            assert_eq!(matches(&again), matches(&pattern), "{text}");
        }
        let operand = Box::new(path(&["a"]));
        let filter = Expr::Like { operand, pattern: LikePattern::Compiled(pattern) };
        let text = plan(Vec::new(), filter).filter_text(100).unwrap();
        assert_eq!(text, "(ROOT.a LIKE \"a[%]b%_[^x-z]\")");
    }
}
