//! Failures that tests of drivers ask for. A fail point belongs to the listener it was set on.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Object, Value};

use crate::MongoError;
use crate::command::{is_true, whole_number};
use crate::errors::codes as code;

/// The only fail point.
const FAIL_COMMAND: &str = "failCommand";

/// What to do instead of a command, or with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    /// Wait so long.
    pub(crate) block: Option<Duration>,
    /// End the connection.
    pub(crate) hangs_up: bool,
    /// Fail with this number.
    pub(crate) error: Option<i32>,
    /// Exactly these labels.
    pub(crate) labels: Option<Vec<String>>,
    /// Carry the command out, and report this.
    pub(crate) write_concern_error: Option<Object>,
}

/// The fail points that are set, by the port of their listener.
#[derive(Debug, Default)]
pub(crate) struct FailPoints {
    set: Mutex<BTreeMap<u16, FailPoint>>,
}

#[derive(Clone, Debug)]
struct FailPoint {
    mode: Mode,
    commands: Vec<String>,
    app_name: Option<String>,
    namespace: Option<String>,
    failure: Failure,
    hits: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    AlwaysOn,
    Times(i64),
    Skip(i64),
    Probability(f64),
}

impl FailPoints {
    /// Sets or removes a fail point. Returns how often the one before was met.
    pub(crate) fn configure(
        &self,
        listener: u16,
        name: &Value,
        mode: &Value,
        data: Option<&Object>,
    ) -> Result<i64, MongoError> {
        if name.as_str() != Some(FAIL_COMMAND) {
            let name = name.as_str().unwrap_or_default();
            let message = format!("fail point '{name}' is not supported");
            return Err(MongoError::new(code::BAD_VALUE, message));
        }
        let mode = Mode::read(mode)?;
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = set.get(&listener).map_or(0, |before| before.hits);
        match mode {
            None => {
                set.remove(&listener);
            }
            Some(mode) => {
                set.insert(listener, FailPoint::read(mode, data.unwrap_or(&Object::new()))?);
            }
        }
        Ok(hits)
    }

    /// What a command that came to this listener meets.
    pub(crate) fn meet(
        &self,
        listener: u16,
        (command, app_name): (&str, Option<&str>),
        namespace: Option<&str>,
        random: impl FnOnce() -> f64,
    ) -> Option<Failure> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let point = set.get_mut(&listener)?;
        let is_meant = point.commands.iter().any(|name| name == command)
            && point.app_name.as_deref().is_none_or(|name| Some(name) == app_name)
            && point.namespace.as_deref().is_none_or(|name| Some(name) == namespace);
        if !is_meant {
            return None;
        }
        let fails = match &mut point.mode {
            Mode::AlwaysOn => true,
            Mode::Times(left) => {
                *left -= 1;
                *left >= 0
            }
            Mode::Skip(left) => {
                *left -= 1;
                *left < 0
            }
            Mode::Probability(probability) => random() < *probability,
        };
        if !fails {
            return None;
        }
        point.hits += 1;
        Some(point.failure.clone())
    }
}

impl Mode {
    /// The mode in a command; `None` for `off`.
    fn read(mode: &Value) -> Result<Option<Self>, MongoError> {
        let unknown = || MongoError::new(code::BAD_VALUE, "unknown mode of a fail point");
        let field = |name| mode.field(name);
        let number = |name| field(name).and_then(whole_number);
        match mode.as_str() {
            Some("off") => return Ok(None),
            Some("alwaysOn") => return Ok(Some(Mode::AlwaysOn)),
            Some(_) => return Err(unknown()),
            None => {}
        }
        if let Some(times) = number("times") {
            return Ok(Some(Mode::Times(times)));
        }
        if let Some(skipped) = number("skip") {
            return Ok(Some(Mode::Skip(skipped)));
        }
        let probability = field("activationProbability").and_then(Value::as_f64);
        probability.map(|probability| Some(Mode::Probability(probability))).ok_or_else(unknown)
    }
}

impl FailPoint {
    fn read(mode: Mode, data: &Object) -> Result<Self, MongoError> {
        let texts = |name| -> Option<Vec<String>> {
            let texts = data.get(name)?.as_array()?.iter();
            Some(texts.filter_map(Value::as_str).map(str::to_owned).collect())
        };
        let is_set = |name| data.get(name).is_some_and(is_true);
        let number = |name| data.get(name).and_then(whole_number);
        let text = |name| data.get(name).and_then(Value::as_str).map(str::to_owned);
        let error = number("errorCode").map(|number| {
            i32::try_from(number).map_err(|_| {
                MongoError::new(code::BAD_VALUE, "failCommand: errorCode is out of range")
            })
        });
        let error = error.transpose()?;
        let block = number("blockTimeMS").and_then(|millis| u64::try_from(millis).ok());
        Ok(Self {
            mode,
            commands: texts("failCommands").unwrap_or_default(),
            app_name: text("appName"),
            namespace: text("namespace"),
            failure: Failure {
                block: block.filter(|_| is_set("blockConnection")).map(Duration::from_millis),
                hangs_up: is_set("closeConnection"),
                error,
                labels: texts("errorLabels"),
                write_concern_error: data
                    .get("writeConcernError")
                    .and_then(Value::as_object)
                    .map(with_name),
            },
            hits: 0,
        })
    }
}

/// An error of a write concern, with the name of its number.
fn with_name(error: &Object) -> Object {
    let mut error = error.clone();
    let number = error.get("code").and_then(whole_number).and_then(|it| i32::try_from(it).ok());
    if let Some(number) = number
        && error.get("codeName").is_none()
    {
        error.insert("codeName", Value::from(&*code::name_of(number)));
    }
    if error.get("errmsg").is_none() {
        error.insert("errmsg", "".into());
    }
    error
}

impl Failure {
    /// The error, with the labels that the fail point has or that a retryable write gets.
    pub(crate) fn to_error(&self, is_retryable_write: bool) -> Option<MongoError> {
        let number = self.error?;
        let message = "Failing command via 'failCommand' failpoint";
        let error = MongoError::new(number, message);
        Some(match &self.labels {
            Some(labels) => labels.iter().fold(error, |error, label| error.label(label)),
            None if is_retryable_write && code::RETRYABLE.contains(&number) => {
                error.label(crate::errors::RETRYABLE_WRITE)
            }
            None => error,
        })
    }

    /// Adds the error of a write concern to a reply.
    pub(crate) fn report(&self, is_retryable_write: bool, reply: &mut Object) {
        let Some(error) = &self.write_concern_error else { return };
        let number = error.get("code").and_then(whole_number);
        let number = number.and_then(|number| i32::try_from(number).ok()).unwrap_or_default();
        let mut labels = self.labels.clone();
        if labels.is_none() && is_retryable_write && code::RETRYABLE.contains(&number) {
            labels = Some(vec![crate::errors::RETRYABLE_WRITE.to_owned()]);
        }
        let mut error = error.clone();
        let own = error.remove("errorLabels");
        reply.insert("writeConcernError", error.into());
        let labels = labels.map(|labels| labels.into_iter().map(Value::from).collect::<Vec<_>>());
        if let Some(labels) = labels.map(Value::Array).or(own) {
            reply.insert("errorLabels", labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    fn set(points: &FailPoints, mode: impl Into<Value>, data: Object) -> Result<i64, i32> {
        let name = Value::from(FAIL_COMMAND);
        points.configure(1, &name, &mode.into(), Some(&data)).map_err(|error| error.code())
    }

    fn meets(points: &FailPoints, command: &str) -> bool {
        points.meet(1, (command, Some("app")), Some("db.c"), || 0.5).is_some()
    }

    fn data() -> Object {
        document! { "failCommands" => vec![Value::from("find")], "errorCode" => 6 }
    }

    #[test]
    fn a_fail_point_is_met_as_often_as_its_mode_says() {
        let points = FailPoints::default();
        assert_eq!(set(&points, document! { "times" => 2 }, data()), Ok(0));
        assert!(!meets(&points, "insert"));
        assert!(points.meet(2, ("find", None), None, || 0.5).is_none(), "another listener");
        assert_eq!([(); 3].map(|()| meets(&points, "find")), [true, true, false]);
        assert_eq!(set(&points, document! { "skip" => 1 }, data()), Ok(2));
        assert_eq!([(); 3].map(|()| meets(&points, "find")), [false, true, true]);
        assert_eq!(set(&points, document! { "activationProbability" => 0.4 }, data()), Ok(2));
        assert!(!meets(&points, "find"));
        assert_eq!(set(&points, "alwaysOn", data()), Ok(0));
        assert!(meets(&points, "find"));
        assert_eq!(set(&points, "off", Object::new()), Ok(1));
        assert!(!meets(&points, "find"));
        assert_eq!(set(&points, "sometimes", data()), Err(code::BAD_VALUE));
        let other = points.configure(1, &"other".into(), &"off".into(), None);
        assert_eq!(other.unwrap_err().code(), code::BAD_VALUE);
    }

    #[test]
    fn a_fail_point_may_be_for_one_program_or_collection() {
        let points = FailPoints::default();
        for (name, value, is_met) in [
            ("appName", "app", true),
            ("appName", "other", false),
            ("namespace", "db.c", true),
            ("namespace", "db.d", false),
        ] {
            let mut data = data();
            data.insert(name, value.into());
            set(&points, "alwaysOn", data).unwrap();
            assert_eq!(meets(&points, "find"), is_met, "{name} {value}");
        }
    }

    #[test]
    fn labels_are_those_of_the_test_or_those_of_retryable_writes() {
        let retryable = Failure { error: Some(91), ..Failure::default() };
        let labels = |failure: &Failure, is_retryable| {
            let reply = failure.to_error(is_retryable).unwrap().to_reply();
            reply.get("errorLabels").cloned()
        };
        assert_eq!(labels(&retryable, false), None);
        let label = Value::Array(vec!["RetryableWriteError".into()]);
        assert_eq!(labels(&retryable, true), Some(label.clone()));
        let own = Failure { labels: Some(vec!["A".into()]), ..retryable.clone() };
        assert_eq!(labels(&own, true), Some(Value::Array(vec!["A".into()])));
        let reported = Failure {
            write_concern_error: Some(with_name(&document! { "code" => 91 })),
            ..Failure::default()
        };
        let mut reply = document! { "n" => 1 };
        reported.report(true, &mut reply);
        assert_eq!(reply.get("errorLabels"), Some(&label));
        let error = reply.get("writeConcernError").unwrap();
        assert_eq!(error.field("codeName"), Some(&"ShutdownInProgress".into()));
    }
}
