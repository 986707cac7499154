//! The global values of a node, which `lnetctl global show` prints and `lnetctl set` changes.
//! Spec: lnet-admin §10.

use std::fmt;
use std::str::FromStr;

use fulmar_lnet::Globals;

use super::diagnostic::nearest;

/// A global value, in the order of `global show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum GlobalKey {
    NumaRange,
    MaxInterfaces,
    Discovery,
    DropAsymRoute,
    RetryCount,
    TransactionTimeout,
    HealthSensitivity,
    RecoveryInterval,
    RouterSensitivity,
    /// Computed from others; shown, not set.
    LndTimeout,
    ResponseTracking,
    RecoveryLimit,
    MaxRecoveryPingInterval,
}

impl GlobalKey {
    /// Every key, in order.
    pub const ALL: [Self; 13] = [
        Self::NumaRange,
        Self::MaxInterfaces,
        Self::Discovery,
        Self::DropAsymRoute,
        Self::RetryCount,
        Self::TransactionTimeout,
        Self::HealthSensitivity,
        Self::RecoveryInterval,
        Self::RouterSensitivity,
        Self::LndTimeout,
        Self::ResponseTracking,
        Self::RecoveryLimit,
        Self::MaxRecoveryPingInterval,
    ];

    /// Returns the name in `lnetctl` and in lnet.conf.
    pub fn name(self) -> &'static str {
        match self {
            Self::NumaRange => "numa_range",
            Self::MaxInterfaces => "max_interfaces",
            Self::Discovery => "discovery",
            Self::DropAsymRoute => "drop_asym_route",
            Self::RetryCount => "retry_count",
            Self::TransactionTimeout => "transaction_timeout",
            Self::HealthSensitivity => "health_sensitivity",
            Self::RecoveryInterval => "recovery_interval",
            Self::RouterSensitivity => "router_sensitivity",
            Self::LndTimeout => "lnd_timeout",
            Self::ResponseTracking => "response_tracking",
            Self::RecoveryLimit => "recovery_limit",
            Self::MaxRecoveryPingInterval => "max_recovery_ping_interval",
        }
    }

    /// Returns the name of the module parameter. That of [`Self::Discovery`] is about the contrary.
    pub fn parameter(self) -> Option<&'static str> {
        Some(match self {
            Self::NumaRange => "lnet_numa_range",
            Self::MaxInterfaces => "lnet_interfaces_max",
            Self::Discovery => "lnet_peer_discovery_disabled",
            Self::DropAsymRoute => "lnet_drop_asym_route",
            Self::RetryCount => "lnet_retry_count",
            Self::TransactionTimeout => "lnet_transaction_timeout",
            Self::HealthSensitivity => "lnet_health_sensitivity",
            Self::RecoveryInterval => "lnet_recovery_interval",
            Self::RouterSensitivity => "router_sensitivity_percentage",
            Self::LndTimeout => return None,
            Self::ResponseTracking => "lnet_response_tracking",
            Self::RecoveryLimit => "lnet_recovery_limit",
            Self::MaxRecoveryPingInterval => "lnet_max_recovery_ping_interval",
        })
    }

    /// Returns the smallest and the largest value.
    pub fn range(self) -> (u32, u32) {
        match self {
            Self::Discovery | Self::DropAsymRoute => (0, 1),
            Self::MaxInterfaces => (16, u32::MAX),
            Self::HealthSensitivity => (0, 1000),
            Self::RouterSensitivity => (0, 100),
            Self::ResponseTracking => (0, 3),
            Self::TransactionTimeout | Self::RecoveryInterval | Self::MaxRecoveryPingInterval => {
                (1, u32::MAX)
            }
            Self::NumaRange | Self::RetryCount | Self::LndTimeout | Self::RecoveryLimit => {
                (0, u32::MAX)
            }
        }
    }

    /// Returns the value in `globals`.
    pub fn get(self, globals: &Globals) -> u32 {
        match self {
            Self::NumaRange => globals.numa_range,
            Self::MaxInterfaces => globals.max_interfaces,
            Self::Discovery => globals.discovery.into(),
            Self::DropAsymRoute => globals.drop_asym_route.into(),
            Self::RetryCount => globals.retry_count,
            Self::TransactionTimeout => globals.transaction_timeout,
            Self::HealthSensitivity => globals.health_sensitivity,
            Self::RecoveryInterval => globals.recovery_interval,
            Self::RouterSensitivity => globals.router_sensitivity,
            Self::LndTimeout => globals.lnd_timeout(),
            Self::ResponseTracking => globals.response_tracking,
            Self::RecoveryLimit => globals.recovery_limit,
            Self::MaxRecoveryPingInterval => globals.max_recovery_ping_interval,
        }
    }

    fn put(self, globals: &mut Globals, value: u32) {
        match self {
            Self::NumaRange => globals.numa_range = value,
            Self::MaxInterfaces => globals.max_interfaces = value,
            Self::Discovery => globals.discovery = value != 0,
            Self::DropAsymRoute => globals.drop_asym_route = value != 0,
            Self::RetryCount => globals.retry_count = value,
            Self::TransactionTimeout => globals.transaction_timeout = value,
            Self::HealthSensitivity => globals.health_sensitivity = value,
            Self::RecoveryInterval => globals.recovery_interval = value,
            Self::RouterSensitivity => globals.router_sensitivity = value,
            Self::LndTimeout => {}
            Self::ResponseTracking => globals.response_tracking = value,
            Self::RecoveryLimit => globals.recovery_limit = value,
            Self::MaxRecoveryPingInterval => globals.max_recovery_ping_interval = value,
        }
    }
}

/// Changes one value, and the values that are computed from it.
///
/// Setting [`GlobalKey::LndTimeout`] does nothing, so that an export can be imported.
///
/// # Errors
/// If the value is refused; `globals` is then unchanged.
pub fn set(globals: &mut Globals, key: GlobalKey, value: u32) -> Result<(), String> {
    let (min, max) = key.range();
    if !(min..=max).contains(&value) {
        return Err(match max {
            u32::MAX => format!("{key} {value} is too small: use {min} or more"),
            _ => format!("{key} {value} is out of range: use {min} to {max}"),
        });
    }
    let mut new = globals.clone();
    key.put(&mut new, value);
    match key {
        GlobalKey::HealthSensitivity if value == 0 => new.retry_count = 0,
        GlobalKey::RetryCount if value > 0 && new.health_sensitivity == 0 => {
            return Err("retry_count must be 0 while health_sensitivity is 0: \
                        set health_sensitivity first"
                .into());
        }
        GlobalKey::RetryCount if value > new.transaction_timeout => {
            let timeout = new.transaction_timeout;
            return Err(format!(
                "retry_count {value} is more than transaction_timeout {timeout}: raise that first"
            ));
        }
        GlobalKey::TransactionTimeout if value <= new.retry_count => {
            let retries = new.retry_count;
            return Err(format!(
                "transaction_timeout {value} must be more than retry_count {retries}"
            ));
        }
        _ => {}
    }
    *globals = new;
    Ok(())
}

/// Changes several values together, independent of their order.
///
/// # Errors
/// If a value is refused; `globals` is then unchanged.
pub fn set_all(globals: &mut Globals, values: &[(GlobalKey, u32)]) -> Result<(), String> {
    let of = |key| values.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| *value);
    let mut new = globals.clone();
    // Without retries every other value is allowed, so retries are cleared first and set last.
    let health = of(GlobalKey::HealthSensitivity);
    let retries = of(GlobalKey::RetryCount);
    if retries.is_some() || health == Some(0) {
        new.retry_count = 0;
    }
    let others = values.iter().filter(|(key, _)| *key != GlobalKey::RetryCount);
    for (key, value) in others {
        set(&mut new, *key, *value)?;
    }
    if let Some(retries) = retries {
        set(&mut new, GlobalKey::RetryCount, retries)?;
    }
    *globals = new;
    Ok(())
}

/// Returns a number of the command line as a kernel takes it, which is not strict with all.
///
/// # Errors
/// If the value is refused.
pub fn lenient(key: GlobalKey, value: i64) -> Result<u32, String> {
    let usual = Globals::default();
    match key {
        GlobalKey::Discovery | GlobalKey::DropAsymRoute => Ok((value != 0).into()),
        GlobalKey::MaxInterfaces if value < key.range().0.into() => Ok(usual.max_interfaces),
        GlobalKey::RecoveryInterval if value < 1 => Ok(usual.recovery_interval),
        GlobalKey::NumaRange if value < 0 => Ok(u32::MAX),
        _ => u32::try_from(value).map_err(|_| format!("{key} {value} is out of range")),
    }
}

impl fmt::Display for GlobalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GlobalKey {
    type Err = String;

    /// `max_intf` is an older name of `max_interfaces`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = if text == "max_intf" { "max_interfaces" } else { text };
        Self::ALL.into_iter().find(|key| key.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("\"{text}\" is not a global value: {}", nearest(text, &names))
        })
    }
}

impl serde::Serialize for GlobalKey {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        crate::as_text::serialize(self, s)
    }
}

impl<'de> serde::Deserialize<'de> for GlobalKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::as_text::deserialize(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_off_means_no_retries() {
        let mut globals = Globals::default();
        set(&mut globals, GlobalKey::HealthSensitivity, 0).unwrap();
        assert_eq!((globals.health_sensitivity, globals.retry_count), (0, 0));
        assert!(set(&mut globals, GlobalKey::RetryCount, 1).is_err());
        let both = [(GlobalKey::RetryCount, 3), (GlobalKey::HealthSensitivity, 200)];
        set_all(&mut globals, &both).unwrap();
        assert_eq!((globals.health_sensitivity, globals.retry_count), (200, 3));
    }

    #[test]
    fn retries_must_fit_the_transaction_timeout() {
        let mut globals = Globals::default();
        let error = set(&mut globals, GlobalKey::TransactionTimeout, 2).unwrap_err();
        assert_eq!(error, "transaction_timeout 2 must be more than retry_count 2");
        assert!(set(&mut globals, GlobalKey::RetryCount, 151).is_err());
        let both = [(GlobalKey::RetryCount, 200), (GlobalKey::TransactionTimeout, 300)];
        set_all(&mut globals, &both).unwrap();
        assert_eq!(GlobalKey::LndTimeout.get(&globals), 299 / 201);
        assert_eq!(
            set_all(&mut globals, &[(GlobalKey::ResponseTracking, 4)]).unwrap_err(),
            "response_tracking 4 is out of range: use 0 to 3"
        );
    }

    #[test]
    fn printed_names_can_be_parsed() {
        for key in GlobalKey::ALL {
            assert_eq!(key.name().parse(), Ok(key));
        }
        let error = "retrycount".parse::<GlobalKey>().unwrap_err();
        assert_eq!(error, "\"retrycount\" is not a global value: did you mean \"retry_count\"?");
    }
}
