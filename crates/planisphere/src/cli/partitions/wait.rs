//! Waits for the end of a job and shows its progress.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;

use super::stopped;
use crate::admin::types::{Job, JobPhase};
use crate::cli::client::{Client, Retries};
use crate::cli::text::{self, OutputStyle};

/// First interval between two polls: many jobs end quickly.
const PACE_FIRST: Duration = Duration::from_millis(50);
/// Longest interval between two polls of a long job.
const PACE_MAX: Duration = Duration::from_secs(1);
const BAR: usize = 20;
/// On output that is no terminal, a line is written for each step of so many percent.
const STEP_PERCENT: u32 = 10;
/// Moves to the start of the line and erases it.
const START_OVER: &str = "\r\x1b[K";

/// Waits until a job ends, and shows its progress on standard error.
pub(super) async fn until_over(
    client: &Client,
    job: Job,
    style: OutputStyle,
) -> anyhow::Result<Job> {
    let is_drawn = std::io::stderr().is_terminal();
    let mut report = Report::new(is_drawn, style);
    tell(&report.beginning(&job));
    let id = job.id;
    let outcome = tokio::select! {
        outcome = poll(client, job, &mut report) => Some(outcome),
        stopped = stopped() => stopped.map(|()| None)?,
    };
    if is_drawn {
        tell(START_OVER);
    }
    match outcome {
        Some(outcome) => outcome,
        None => bail!(
            "stopped waiting; job {id} continues. `planisphere partitions jobs {id}` shows its \
             progress, `... jobs {id} cancel` cancels it."
        ),
    }
}

async fn poll(client: &Client, mut job: Job, report: &mut Report) -> anyhow::Result<Job> {
    let path = format!("/_admin/v1/jobs/{}", job.id);
    let mut pace = PACE_FIRST;
    let mut retries = Retries::default();
    while !is_over(&job) {
        tokio::time::sleep(pace).await;
        pace = (pace * 2).min(PACE_MAX);
        match client.get(&path).await {
            Ok(now) => {
                retries = Retries::default();
                job = now;
                tell(&report.progress(&job));
            }
            Err(error) => tell(&report.failure(&retries.failed(error)?)),
        }
    }
    Ok(job)
}

pub(super) fn is_over(job: &Job) -> bool {
    match job.phase {
        JobPhase::Preparing | JobPhase::Swapping => false,
        JobPhase::Succeeded | JobPhase::Failed | JobPhase::Cancelled => true,
    }
}

/// The progress of a job: one line that is overwritten, or a line now and then.
struct Report {
    is_drawn: bool,
    style: OutputStyle,
    /// The contents of the last line.
    last: Option<(String, u32)>,
}

impl Report {
    fn new(is_drawn: bool, style: OutputStyle) -> Self {
        Self { is_drawn, style, last: None }
    }

    fn beginning(&self, job: &Job) -> String {
        let doing =
            super::jobs::job_text(job, "is running; Ctrl-C stops waiting, the job continues.");
        format!("{doing}\n")
    }

    /// The text to write, empty if there is no progress to show.
    fn progress(&mut self, job: &Job) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        let percent = (job.progress.clamp(0.0, 1.0) * 100.0).round() as u32;
        let doing = super::render::phase(job);
        if self.is_drawn {
            let bar = self.style.bar(job.progress, None, BAR);
            let copied = text::bytes(job.bytes_copied);
            return self.drawn(&format!("  {doing}  {bar}  {percent}%  {copied}"));
        }
        let now = (doing, percent / STEP_PERCENT);
        if is_over(job) || self.last.as_ref() == Some(&now) {
            return String::new();
        }
        let line = format!("  {}, {percent}%\n", now.0);
        self.last = Some(now);
        line
    }

    fn failure(&self, line: &str) -> String {
        match self.is_drawn {
            true => self.drawn(&format!("  {line}")),
            false => format!("  {line}\n"),
        }
    }

    fn drawn(&self, line: &str) -> String {
        format!("{START_OVER}{}", text::cut(line, self.style.columns - 1))
    }
}

/// Standard error is for users who watch; if it is closed, that is no failure.
fn tell(text: &str) {
    if !text.is_empty() {
        eprint!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: OutputStyle = OutputStyle { has_colour: false, has_blocks: false, columns: 100 };

    fn job(phase: &str, progress: f64) -> Job {
        serde_json::from_value(json!({
            "id": 3, "kind": "split", "reason": "asked", "manual": false, "phase": phase,
            "paused": false, "sources": ["0"], "children": ["1", "2"], "rowsCopied": 0,
            "bytesCopied": 2048, "progress": progress, "started": 1,
        }))
        .unwrap()
    }

    #[test]
    fn the_beginning_names_the_job_and_what_an_interrupt_does() {
        let said = Report::new(false, PLAIN).beginning(&job("preparing", 0.0));
        assert_eq!(
            said,
            "Splitting partition 0 into 1 and 2: job 3 is running; Ctrl-C stops waiting, the \
             job continues.\n"
        );
    }

    #[test]
    fn on_a_terminal_one_line_is_drawn_again_and_again() {
        let mut report = Report::new(true, PLAIN);
        let line = report.progress(&job("preparing", 0.5));
        assert_eq!(line, "\r\x1b[K  copying  ##########            50%  2.0 KB");
        assert_eq!(report.progress(&job("preparing", 0.5)), line);
        let narrow = OutputStyle { columns: 20, ..PLAIN };
        let line = Report::new(true, narrow).progress(&job("preparing", 0.5));
        assert_eq!(line.strip_prefix(START_OVER).unwrap().chars().count(), 19);
    }

    #[test]
    fn elsewhere_a_line_is_written_when_there_is_something_new() {
        let mut report = Report::new(false, PLAIN);
        let said: String = [("preparing", 0.0), ("preparing", 0.05), ("preparing", 0.58)]
            .into_iter()
            .chain([("preparing", 0.59), ("swapping", 1.0), ("succeeded", 1.0)])
            .map(|(phase, progress)| report.progress(&job(phase, progress)))
            .collect();
        assert_eq!(said, "  copying, 0%\n  copying, 58%\n  swapping, 100%\n");
    }
}
