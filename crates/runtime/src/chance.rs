//! Chance as a parameter: the only place of the workspace that draws it.

/// A number in `0.0..1.0` that nobody can foresee, for spreading work over time.
pub fn chance() -> f64 {
    rand::random()
}
