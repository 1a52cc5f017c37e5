//! The body of a PATCH request.
