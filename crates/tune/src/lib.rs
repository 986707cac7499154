//! What a path of a rate and a round trip needs: the closed model of throughput, and advice.
#![forbid(unsafe_code)]
