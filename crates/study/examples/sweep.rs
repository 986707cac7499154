//! All points, for a look.
use fulmar_study::sc11;
fn main() {
    let study = sc11::run(|_, _| ()).unwrap();
    for p in &study.points {
        let k = p.key;
        println!(
            "{:5} {:11} {:10} P {:2} c {:3} size {:7} n {:2}  sim {:8.1} closed {:8.1} {:+.1} % {:?}/{:?} steady {} rounds {} {:.0} ms {:.1} us/step",
            k.direction.name(),
            k.hold.name(),
            &k.distance.name()[..5],
            k.peer_credits,
            k.concurrency,
            k.size,
            k.clients,
            p.simulated.bytes_per_second / 1e6,
            p.closed.bytes_per_second / 1e6,
            p.error * 100.,
            p.simulated.binding,
            p.closed.bound,
            p.simulated.steady,
            p.simulated.rpcs / k.units(),
            p.took.as_secs_f64() * 1e3,
            p.took.as_secs_f64() * 1e6 / p.simulated.steps as f64
        );
    }
    println!("{} points {:.1} s", study.points.len(), study.took.as_secs_f64());
    std::fs::create_dir_all("/tmp/samples/sc11").unwrap();
    for f in study.figures() {
        std::fs::write(format!("/tmp/samples/sc11/{}.png", f.name), f.picture.png()).unwrap();
    }
    std::fs::write("/tmp/samples/sc11/report.md", study.report()).unwrap();
}
