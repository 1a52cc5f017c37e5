//! Computes from a pattern how much text its steps may read.

use fancy_regex::{Assertion, Expr};

/// How much text the steps of a pattern may read.
pub(super) struct PatternAnalysis {
    /// Most bytes of the text; `None` if unlimited.
    pub(super) step_bytes_max: Option<usize>,
    /// The same, assuming that an unbounded loop reads no more in a step than one iteration does.
    step_bytes_max_but_loops: usize,
    /// Whether a reference compares text of any length.
    pub(super) compares_far: bool,
    /// How many parts only backtracking can match.
    pub(super) backtracking: usize,
    /// How many of those are back references.
    references: usize,
}

impl PatternAnalysis {
    /// The analysis of a whole pattern; an error says which construct is not allowed.
    pub(super) fn of(expr: &Expr) -> Result<Self, String> {
        let mut parts = Self::within(expr, &groups_of(expr))?;
        // If only back references are matched in steps, a loop takes a step for each iteration,
        // unless the linear engine runs it.
        if parts.backtracking == parts.references && !scans_far(expr, false) {
            parts.step_bytes_max = Some(parts.step_bytes_max_but_loops);
        }
        Ok(parts)
    }

    /// `groups` are the groups of the whole pattern, in order.
    fn within(expr: &Expr, groups: &[&Expr]) -> Result<Self, String> {
        let mut own = if let Expr::Literal { val, .. } = expr {
            val.len().saturating_mul(2)
        } else if let Expr::LiteralBytes { bytes } = expr {
            bytes.len()
        } else {
            size_of::<char>()
        };
        let (mut is_reference, mut is_bounded, mut compares_far) = (false, true, false);
        if let Expr::Backref { group, casei } = expr {
            let referred = group.checked_sub(1).and_then(|group| groups.get(group));
            let length = referred.and_then(|group| length_max(group));
            is_reference = true;
            own = length.unwrap_or(own);
            // Letters are compared one by one where their case is ignored.
            (is_bounded, compares_far) = (length.is_some() || !casei, length.is_none() && !casei);
        }
        let is_stepped =
            matches!(expr, Expr::LookAround(..) | Expr::AtomicGroup(_) | Expr::Conditional { .. });
        if let Expr::SubroutineCall(_)
        | Expr::BackrefWithRelativeRecursionLevel { .. }
        | Expr::DefineGroup { .. } = expr
        {
            return Err("it calls a group as a subroutine".to_owned());
        }
        if let Expr::Absent(_) | Expr::BacktrackingControlVerb(_) | Expr::AstNode(..) = expr {
            return Err("it has an operator that is not supported".to_owned());
        }
        let far = if is_bounded { own } else { usize::MAX };
        let mut parts = PatternAnalysis {
            step_bytes_max: is_bounded.then_some(own),
            step_bytes_max_but_loops: far,
            compares_far,
            backtracking: usize::from(is_stepped || is_reference),
            references: usize::from(is_reference),
        };
        for child in expr.children_iter() {
            let child = Self::within(child, groups)?;
            parts.backtracking += child.backtracking;
            parts.references += child.references;
            parts.compares_far |= child.compares_far;
            parts.step_bytes_max = parts
                .step_bytes_max
                .zip(child.step_bytes_max)
                .map(|(own, other)| own.saturating_add(other));
            parts.step_bytes_max_but_loops =
                parts.step_bytes_max_but_loops.saturating_add(child.step_bytes_max_but_loops);
        }
        if let Expr::Repeat { lo, hi, .. } = expr {
            let is_bounded = *hi < usize::MAX;
            let rounds = if is_bounded { *hi } else { (*lo).max(1) };
            let bounded = parts.step_bytes_max.filter(|_| is_bounded);
            parts.step_bytes_max =
                bounded.map(|step_bytes_max| step_bytes_max.saturating_mul(rounds));
            parts.step_bytes_max_but_loops = parts.step_bytes_max_but_loops.saturating_mul(rounds);
        }
        Ok(parts)
    }
}

/// The groups of a pattern in the order of their numbers.
fn groups_of(expr: &Expr) -> Vec<&Expr> {
    let mut groups = Vec::new();
    let mut rest = vec![expr];
    while let Some(expr) = rest.pop() {
        if let Expr::Group(_) = expr {
            groups.push(expr);
        }
        let children: Vec<&Expr> = expr.children_iter().collect();
        rest.extend(children.into_iter().rev());
    }
    groups
}

/// Most bytes that can match; `None` if unlimited.
fn length_max(expr: &Expr) -> Option<usize> {
    if let Expr::Literal { val, .. } = expr {
        return Some(val.len().saturating_mul(2));
    }
    if let Expr::LiteralBytes { bytes } = expr {
        return Some(bytes.len());
    }
    if let Expr::Repeat { child, hi, .. } = expr {
        let times = Some(*hi).filter(|hi| *hi < usize::MAX)?;
        return Some(length_max(child)?.saturating_mul(times));
    }
    if let Expr::Concat(_) | Expr::Alt(_) | Expr::Group(_) = expr {
        let mut lengths = expr.children_iter().map(length_max);
        return lengths.try_fold(0, |sum: usize, length| Some(sum.saturating_add(length?)));
    }
    // Groups with references or look-around are not among the plain groups worth measuring.
    let is_plain =
        matches!(expr, Expr::Empty | Expr::Any { .. } | Expr::Delegate { .. } | Expr::Assertion(_));
    is_plain.then_some(size_of::<char>())
}

/// Whether the linear engine runs an unbounded loop as one step. It runs any part without a
/// reference, but only at the end of a pattern or of one of its alternatives: what follows a loop
/// may need another number of its iterations.
fn scans_far(expr: &Expr, is_followed: bool) -> bool {
    if !is_followed && !refers(expr) {
        return length_max(expr).is_none();
    }
    if let Expr::Concat(parts) = expr {
        let last = parts.iter().rposition(refers).unwrap_or_default();
        let (backtracking, rest) = parts.split_at(last + 1);
        return backtracking.iter().any(|part| scans_far(part, true))
            || rest.iter().any(|part| scans_far(part, is_followed));
    }
    let is_followed = is_followed || matches!(expr, Expr::Repeat { hi, .. } if *hi > 1);
    expr.children_iter().any(|child| scans_far(child, is_followed))
}

/// Whether a part contains a back reference.
fn refers(expr: &Expr) -> bool {
    matches!(expr, Expr::Backref { .. }) || expr.children_iter().any(refers)
}

/// Whether a match can only start at the beginning of the text.
pub(super) fn begins_with_text(expr: &Expr) -> bool {
    if let Expr::Concat(parts) = expr {
        return parts.first().is_some_and(begins_with_text);
    }
    matches!(expr, Expr::Assertion(Assertion::StartText))
}
