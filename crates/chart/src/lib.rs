//! Figures as pictures.
#![forbid(unsafe_code)]
