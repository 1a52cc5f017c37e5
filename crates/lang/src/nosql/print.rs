//! Writes a tree as canonical text: upper-case keywords, a line per clause, every operator in
//! parentheses. Names and paths stay as given.

use model::Value;

use super::ast::{
    BinaryOp, Collection, Count, CountValue, Direction, Expr, ExprKind, LogicalOp, Name, OrderBy,
    Query, Select, SelectItem, Source, SubqueryForm, UnaryOp,
};
use super::lexer::is_identifier;

/// The canonical text of a query.
pub fn query_text(query: &Query) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    printer.query(query);
    printer.out
}

/// The canonical text of an expression.
pub fn expr_text(expr: &Expr) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    printer.expr(expr);
    printer.out
}

struct Printer {
    out: String,
    indent: usize,
}

impl Printer {
    fn word(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    fn list<T>(&mut self, items: &[T], print: fn(&mut Self, &T)) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.word(", ");
            }
            print(self, item);
        }
    }

    fn query(&mut self, query: &Query) {
        self.word("SELECT ");
        if query.distinct.is_some() {
            self.word("DISTINCT ");
        }
        if let Some(top) = &query.top {
            self.word("TOP ");
            self.count(top);
            self.word(" ");
        }
        self.select(&query.select);
        for (at, source) in query.from.iter().enumerate() {
            self.line();
            self.word(if at == 0 { "FROM " } else { "JOIN " });
            self.source(source);
        }
        if let Some(filter) = &query.filter {
            self.line();
            self.word("WHERE ");
            self.expr(filter);
        }
        if !query.group_by.is_empty() {
            self.line();
            self.word("GROUP BY ");
            self.list(&query.group_by, Self::expr);
        }
        if let Some(order_by) = &query.order_by {
            self.line();
            self.order_by(order_by);
        }
        if let Some(window) = &query.window {
            self.line();
            self.word("OFFSET ");
            self.count(&window.offset);
            self.word(" LIMIT ");
            self.count(&window.limit);
        }
    }

    fn count(&mut self, count: &Count) {
        match &count.value {
            CountValue::Number(number) => self.value(number),
            CountValue::Parameter(name) => self.word(name),
        }
    }

    fn select(&mut self, select: &Select) {
        match select {
            Select::Star(_) => self.word("*"),
            Select::Value(value) => {
                self.word("VALUE ");
                self.expr(value);
            }
            Select::List(items) => self.list(items, Self::select_item),
        }
    }

    fn select_item(&mut self, item: &SelectItem) {
        self.expr(&item.expr);
        if let Some(alias) = &item.alias {
            self.word(" AS ");
            self.alias(alias);
        }
    }

    fn alias(&mut self, alias: &Name) {
        if is_identifier(&alias.text) {
            self.word(&alias.text);
        } else {
            self.string(&alias.text);
        }
    }

    fn source(&mut self, source: &Source) {
        if let (true, Some(element)) = (source.is_iteration, &source.alias) {
            self.word(&element.text);
            self.word(" IN ");
        }
        match &source.collection {
            Collection::Path(path) => self.expr(path),
            Collection::Subquery(query) => self.subquery(query),
        }
        if let (false, Some(alias)) = (source.is_iteration, &source.alias) {
            self.word(" AS ");
            self.word(&alias.text);
        }
    }

    fn order_by(&mut self, order_by: &OrderBy) {
        self.word(if order_by.is_rank { "ORDER BY RANK " } else { "ORDER BY " });
        self.list(&order_by.items, |printer, item| {
            printer.expr(&item.expr);
            match item.direction {
                Some(Direction::Ascending) => printer.word(" ASC"),
                Some(Direction::Descending) => printer.word(" DESC"),
                None => {}
            }
        });
    }

    fn subquery(&mut self, query: &Query) {
        self.word("(");
        self.indent += 1;
        self.line();
        self.query(query);
        self.indent -= 1;
        self.line();
        self.word(")");
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(None) => self.word("undefined"),
            ExprKind::Literal(Some(value)) => self.value(value),
            ExprKind::Parameter(name) | ExprKind::Identifier(name) => self.word(name),
            ExprKind::Member { base, name } => {
                self.expr(base);
                self.word(".");
                self.word(&name.text);
            }
            ExprKind::Index { base, index } => {
                self.expr(base);
                self.word("[");
                self.expr(index);
                self.word("]");
            }
            ExprKind::Unary { op, operand } => {
                self.word("(");
                self.word(unary_text(*op));
                self.expr(operand);
                self.word(")");
            }
            ExprKind::Binary { op, left, right } => {
                self.grouped(&[(None, left), (Some(binary_text(*op)), right)]);
            }
            ExprKind::Logical { op, operands } => self.logical(*op, operands),
            ExprKind::Conditional { condition, then, otherwise } => {
                self.grouped(&[(None, condition), (Some("?"), then), (Some(":"), otherwise)]);
            }
            ExprKind::In { needle, list, is_negated } => {
                self.word("(");
                self.expr(needle);
                self.word(if *is_negated { " NOT IN (" } else { " IN (" });
                self.list(list, Self::expr);
                self.word("))");
            }
            ExprKind::Between { operand, low, high, is_negated } => {
                let between = if *is_negated { "NOT BETWEEN" } else { "BETWEEN" };
                self.grouped(&[(None, operand), (Some(between), low), (Some("AND"), high)]);
            }
            ExprKind::Like { operand, pattern, escape, is_negated } => {
                self.like(operand, pattern, *escape, *is_negated);
            }
            ExprKind::Call { name, is_user_defined, args } => {
                self.word(if *is_user_defined { "udf." } else { "" });
                self.word(&name.text);
                self.word("(");
                self.list(args, Self::expr);
                self.word(")");
            }
            ExprKind::Array(elements) => {
                self.word("[");
                self.list(elements, Self::expr);
                self.word("]");
            }
            ExprKind::Object(fields) => {
                self.word("{");
                self.list(fields, |printer, (name, field)| {
                    printer.string(&name.text);
                    printer.word(": ");
                    printer.expr(field);
                });
                self.word("}");
            }
            ExprKind::Subquery { form, query } => {
                self.word(subquery_text(*form));
                self.subquery(query);
            }
        }
    }

    /// Operands, each with the operator before it, in one pair of parentheses.
    fn grouped(&mut self, parts: &[(Option<&str>, &Expr)]) {
        self.word("(");
        for (operator, operand) in parts {
            if let Some(operator) = operator {
                self.word(" ");
                self.word(operator);
                self.word(" ");
            }
            self.expr(operand);
        }
        self.word(")");
    }

    /// A flat chain as nested pairs, as it was parsed.
    fn logical(&mut self, op: LogicalOp, operands: &[Expr]) {
        let text = match op {
            LogicalOp::And => " AND ",
            LogicalOp::Or => " OR ",
        };
        for _ in 1..operands.len() {
            self.word("(");
        }
        for (at, operand) in operands.iter().enumerate() {
            if at > 0 {
                self.word(text);
            }
            self.expr(operand);
            if at > 0 {
                self.word(")");
            }
        }
    }

    fn like(&mut self, operand: &Expr, pattern: &Expr, escape: Option<char>, is_negated: bool) {
        self.word("(");
        self.expr(operand);
        self.word(if is_negated { " NOT LIKE " } else { " LIKE " });
        self.expr(pattern);
        if let Some(escape) = escape {
            self.word(" ESCAPE ");
            self.string(&escape.to_string());
        }
        self.word(")");
    }

    fn value(&mut self, value: &Value) {
        let non_finite = if let Value::Double(number) = value { Some(*number) } else { None };
        match non_finite.filter(|number| !number.is_finite()) {
            Some(number) if number.is_nan() => self.word("NaN"),
            Some(number) => self.word(if number > 0.0 { "Infinity" } else { "-Infinity" }),
            None => self.word(&model::json::to_string(value)),
        }
    }

    fn string(&mut self, text: &str) {
        let mut bytes = Vec::with_capacity(text.len() + 2);
        model::json::write_str(text, &mut bytes);
        self.word(&String::from_utf8_lossy(&bytes));
    }
}

fn unary_text(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Negate => "-",
        UnaryOp::Plus => "+",
        UnaryOp::BitNot => "~",
        UnaryOp::Not => "NOT ",
    }
}

fn binary_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Remainder => "%",
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::ShiftRightUnsigned => ">>>",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
        BinaryOp::Equal => "=",
        BinaryOp::NotEqual => "!=",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitXor => "^",
        BinaryOp::BitOr => "|",
        BinaryOp::Concat => "||",
        BinaryOp::Coalesce => "??",
    }
}

fn subquery_text(form: SubqueryForm) -> &'static str {
    match form {
        SubqueryForm::Scalar => "",
        SubqueryForm::Exists => "EXISTS",
        SubqueryForm::Array => "ARRAY",
        SubqueryForm::All => "ALL",
        SubqueryForm::First => "FIRST",
        SubqueryForm::Last => "LAST",
    }
}
