//! Expressions as text, for explanations of plans. The item is `ROOT`, and constants replace
//! parameters.

use model::{Value, json};

use crate::algebra::{BinaryOp, Expr, LikePattern, Relation, SubqueryForm, UnaryOp};
use crate::plan::{Binding, Select};

/// The end of a text that was cut.
const CUT: &str = "...";

/// An expression over the variables of `select`, or its beginning if it is longer than
/// `chars_max`.
pub(crate) fn expr_text(select: &Select, expr: &Expr, chars_max: usize) -> String {
    let mut printer = Printer { out: String::new(), room: chars_max, names: Vec::new() };
    printer.bind(select);
    printer.expr(expr);
    printer.finish(chars_max)
}

struct Printer {
    out: String,
    /// Characters that may still be written; at zero, nothing more is written.
    room: usize,
    /// The name of each variable.
    names: Vec<String>,
}

impl Printer {
    fn finish(self, chars_max: usize) -> String {
        if self.room > 0 {
            return self.out;
        }
        let kept = chars_max.saturating_sub(CUT.len());
        self.out.chars().take(kept).chain(CUT.chars()).collect()
    }

    /// Names the variables of a query after their origin.
    fn bind(&mut self, select: &Select) {
        while self.names.len() < select.outer() {
            self.names.push("ROOT".to_owned());
        }
        self.names.truncate(select.outer());
        for binding in select.bindings() {
            let name = match binding {
                Binding::Value(value) => self.aside(value),
                Binding::Elements(array) => self.aside(array) + "[]",
                Binding::Rows(_) => "ROW".to_owned(),
            };
            self.names.push(name);
        }
    }

    /// An expression by itself.
    fn aside(&mut self, expr: &Expr) -> String {
        let before = std::mem::take(&mut self.out);
        self.expr(expr);
        std::mem::replace(&mut self.out, before)
    }

    fn word(&mut self, text: &str) {
        if self.room > 0 {
            self.out.push_str(text);
            self.room = self.room.saturating_sub(text.chars().count());
        }
    }

    fn list<'e>(&mut self, operands: impl IntoIterator<Item = &'e Expr>, between: &str) {
        for (at, operand) in operands.into_iter().enumerate() {
            if self.room == 0 {
                return;
            }
            if at > 0 {
                self.word(between);
            }
            self.expr(operand);
        }
    }

    /// Operands and the words between them, in parentheses.
    fn group(&mut self, first: &Expr, rest: &[(&str, &Expr)]) {
        self.word("(");
        self.expr(first);
        for (word, operand) in rest {
            self.word(" ");
            self.word(word);
            self.word(" ");
            self.expr(operand);
        }
        self.word(")");
    }

    fn expr(&mut self, expr: &Expr) {
        if self.room == 0 {
            return;
        }
        match expr {
            Expr::Constant(None) => self.word("undefined"),
            Expr::Constant(Some(value)) => self.value(value),
            Expr::Variable(slot) => {
                let name = self.names.get(*slot).cloned().unwrap_or_else(|| "ROW".to_owned());
                self.word(&name);
            }
            Expr::Property { base, name } => {
                self.expr(base);
                self.property(name);
            }
            Expr::Element { base, index } => {
                self.expr(base);
                self.word("[");
                self.expr(index);
                self.word("]");
            }
            Expr::Unary { op, operand } => {
                self.word(unary_text(*op));
                self.expr(operand);
                self.word(")");
            }
            Expr::Not(operand) => {
                self.word("(NOT ");
                self.expr(operand);
                self.word(")");
            }
            Expr::Binary { op, left, right } => self.group(left, &[(binary_text(*op), right)]),
            Expr::Matches(_) => self.word("MATCHES(ROOT)"),
            Expr::SortValue(value) => self.word(&value.text()),
            Expr::Untag(operand) => {
                self.expr(operand);
                self.property("$v");
            }
            Expr::Typed { relation, left, right } => {
                self.group(left, &[(relation_text(*relation), right)]);
            }
            Expr::And(operands) => self.enclosed("(", operands, " AND ", ")"),
            Expr::Or(operands) => self.enclosed("(", operands, " OR ", ")"),
            Expr::Coalesce(first, second) => self.group(first, &[("??", second)]),
            Expr::Conditional { condition, then, otherwise } => {
                self.group(condition, &[("?", then), (":", otherwise)]);
            }
            Expr::In { needle, list } => {
                self.word("(");
                self.expr(needle);
                self.enclosed(" IN (", list, ", ", "))");
            }
            Expr::Between { operand, low, high } => {
                self.group(operand, &[("BETWEEN", low), ("AND", high)]);
            }
            Expr::Like { operand, pattern } => self.like(operand, pattern),
            Expr::Call { function, args, .. } => {
                self.word(function.name());
                self.enclosed("(", args, ", ", ")");
            }
            Expr::UserFunction { name, args, .. } => {
                self.word("udf.");
                self.word(name);
                self.enclosed("(", args, ", ", ")");
            }
            Expr::Computed(property) => {
                self.word("ROOT");
                self.property(&property.name);
            }
            Expr::Random(_) => self.word("RAND()"),
            Expr::Array(elements) => self.enclosed("[", elements, ", ", "]"),
            Expr::Object(fields) => self.object(fields),
            Expr::Subquery { form, select } => self.subquery(*form, select),
        }
    }

    fn enclosed(&mut self, open: &str, operands: &[Expr], between: &str, close: &str) {
        self.word(open);
        self.list(operands, between);
        self.word(close);
    }

    fn property(&mut self, name: &str) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !name.is_empty() && name.chars().all(is_word) {
            self.word(".");
            self.word(name);
        } else {
            self.word("[");
            self.value(&Value::from(name));
            self.word("]");
        }
    }

    fn object(&mut self, fields: &[(String, Expr)]) {
        self.word("{");
        for (at, (name, field)) in fields.iter().enumerate() {
            if at > 0 {
                self.word(", ");
            }
            self.value(&Value::from(name.as_str()));
            self.word(": ");
            self.expr(field);
        }
        self.word("}");
    }

    fn like(&mut self, operand: &Expr, pattern: &LikePattern) {
        self.word("(");
        self.expr(operand);
        self.word(" LIKE ");
        match pattern {
            LikePattern::Compiled(pattern) => self.value(&Value::from(pattern.to_text())),
            LikePattern::Computed { text, .. } => self.expr(text),
        }
        self.word(")");
    }

    /// For a subquery, only its filter.
    fn subquery(&mut self, form: SubqueryForm, select: &Select) {
        let names = self.names.clone();
        self.bind(select);
        self.word(match form {
            SubqueryForm::Scalar => "(SELECT",
            SubqueryForm::Exists => "EXISTS(SELECT",
            SubqueryForm::Array => "ARRAY(SELECT",
            SubqueryForm::All => "ALL(SELECT",
            SubqueryForm::First => "FIRST(SELECT",
            SubqueryForm::Last => "LAST(SELECT",
        });
        let own: Vec<String> = self.names.iter().skip(select.outer()).cloned().collect();
        if !own.is_empty() {
            self.word(" FROM ");
            self.word(&own.join(" JOIN "));
        }
        if let Some(filter) = select.filter() {
            self.word(" WHERE ");
            self.expr(filter);
        }
        self.word(")");
        self.names = names;
    }

    fn value(&mut self, value: &Value) {
        self.word(&json::to_string(value));
    }
}

fn unary_text(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Negate => "(-",
        UnaryOp::Plus => "(+",
        UnaryOp::BitNot => "(~",
    }
}

fn relation_text(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "eq",
        Relation::NotEqual => "ne",
        Relation::Less => "lt",
        Relation::LessOrEqual => "le",
        Relation::Greater => "gt",
        Relation::GreaterOrEqual => "ge",
    }
}

fn binary_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Remainder => "%",
        BinaryOp::Concat => "||",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::ShiftRightUnsigned => ">>>",
        BinaryOp::Equal => "=",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
    }
}
