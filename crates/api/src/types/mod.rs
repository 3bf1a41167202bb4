//! Values that have been checked: holding one is the proof that it is right.
