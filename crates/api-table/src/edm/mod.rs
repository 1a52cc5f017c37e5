//! Entities in the terms of the Entity Data Model: typed properties, and their JSON forms.
