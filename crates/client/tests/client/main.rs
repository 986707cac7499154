//! A client and servers on one machine, over sockets.

mod mount;
mod server;
