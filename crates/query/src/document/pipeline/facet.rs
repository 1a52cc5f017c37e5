//! `$facet`: several pipelines over the same documents.

use std::sync::Arc;

use model::{Object, Value};

use super::buffer::{Buffer, Reading};
use super::{Context, Documents, Pipeline};
use crate::budget::bytes_of;
use crate::document::Failure;

/// `$facet`.
#[derive(Clone, Debug)]
pub struct Facet {
    /// The pipelines, with the names of the fields for what comes out of them.
    pub pipelines: Vec<(String, Pipeline)>,
}

/// Most bytes of the document that comes out.
const BYTES_MAX: usize = 100 * 1024 * 1024;

pub(super) fn run(
    facet: Arc<Facet>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Facets { facet, source: Some(source), context })
}

struct Facets {
    facet: Arc<Facet>,
    source: Option<Box<dyn Documents>>,
    context: Context,
}

impl Documents for Facets {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let Some(source) = self.source.take() else { return Ok(None) };
        let buffer = Arc::new(Buffer::of(source, &self.context, "$facet")?);
        let (mut output, mut bytes) = (Object::new(), 0);
        for (name, pipeline) in &self.facet.pipelines {
            let source = Box::new(Reading { buffer: Arc::clone(&buffer), next: 0 });
            let mut documents = pipeline.run(source, &self.context);
            let mut found = Vec::new();
            while let Some(document) = documents.next()? {
                bytes += bytes_of(&document);
                if bytes > BYTES_MAX {
                    let message = format!(
                        "document constructed by $facet is {bytes} bytes, which exceeds the limit \
                         of {BYTES_MAX} bytes"
                    );
                    return Err(Failure::new(4031700, message));
                }
                found.push(document);
            }
            output.insert(name.as_str(), Value::Array(found));
        }
        Ok(Some(Value::Object(output)))
    }
}
