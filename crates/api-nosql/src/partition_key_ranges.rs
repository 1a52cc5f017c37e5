//! The ranges of a container, as clients cache them.
