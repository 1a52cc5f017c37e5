//! Writes rows as JSON text straight from their expressions, without intermediate values.

use model::json;

use crate::algebra::Expr;
use crate::eval::{Scope, is_finite};
use crate::plan::Projection;
use crate::{Budget, EvalError};

/// Appends the text of the item in variable 0.
pub(crate) type WriteItem<'a> = dyn Fn(&mut Vec<u8>) + 'a;

/// Where a row is written.
pub(crate) struct RowWriter<'a> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) budget: &'a Budget,
    /// If set, variable 0 is copied as text and has no value.
    pub(crate) item: Option<&'a WriteItem<'a>>,
    pub(crate) out: &'a mut Vec<u8>,
}

impl RowWriter<'_> {
    /// Appends the row; false, with nothing appended, if there is none.
    pub(crate) fn row(&mut self, projection: &Projection) -> Result<bool, EvalError> {
        match projection {
            Projection::Value(value) => self.value(value),
            Projection::Fields(fields) => self.object(fields),
        }
    }

    /// Appends a value; false, with nothing appended, if it is *undefined*.
    fn value(&mut self, expr: &Expr) -> Result<bool, EvalError> {
        match (expr, self.item) {
            (Expr::Variable(0), Some(item)) => {
                let start = self.out.len();
                item(self.out);
                self.budget.spend_bytes(self.out.len() - start)?;
                Ok(true)
            }
            (Expr::Array(elements), _) => self.array(elements),
            (Expr::Object(fields), _) => self.object(fields),
            _ => {
                let Some(value) = expr.eval(self.scope, self.budget)? else { return Ok(false) };
                if !is_finite(&value) {
                    return Err(EvalError::NonFiniteNumber);
                }
                self.budget.spend_copy_of(&value)?;
                json::write(&value, self.out);
                Ok(true)
            }
        }
    }

    fn array(&mut self, elements: &[Expr]) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        self.out.push(b'[');
        let start = self.out.len();
        for element in elements {
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            if !self.value(element)? {
                self.out.truncate(before);
            }
        }
        self.out.push(b']');
        Ok(true)
    }

    /// Compilers ensure that names are unique.
    fn object(&mut self, fields: &[(String, Expr)]) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        self.out.push(b'{');
        let start = self.out.len();
        for (name, field) in fields {
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            json::write_str(name, self.out);
            self.out.push(b':');
            if !self.value(field)? {
                self.out.truncate(before);
            }
        }
        self.out.push(b'}');
        Ok(true)
    }
}
