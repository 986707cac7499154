//! Locks: their names, descriptions, requests, intents and value blocks.

mod glimpse;
mod intent;
mod lock;
mod lvb;
mod policy;
mod resource;

pub use glimpse::{BarrierGlimpse, QuotaGlimpse};
pub use intent::{Disposition, Intent, IntentOps, LayoutIntent, LayoutIntentFlags, LayoutIntentOp};
pub use lock::{LockDesc, LockFlags, LockReply, LockRequest};
pub use lvb::{BarrierLvb, Nanoseconds, OstLvb, QuotaLvb};
pub use policy::{Extent, Flock, InodeBits, InodebitsPolicy, Policy, TypedPolicy};
pub use resource::{ConfigLock, LockMode, LockType, ResourceDesc, ResourceId};
