//! The lock manager against recorded conversations of kernel nodes.

mod both_ends;
mod playback;
mod recorded;
mod swarm;
