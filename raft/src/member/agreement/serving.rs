//! The sender's end of a pull: this member's state for a member that repairs its own.
//!
//! Owns how many are sent at once, and for how long a receiver may read. The frames are those of a leader's snapshot.

use std::time::Duration;

use futures::FutureExt;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::{Core, within};
use crate::member::network::send_pulled;
use crate::transport::{Duplex, Transport};

/// Time to receive or send a state, five times what the library gives a snapshot. A slower transfer is begun again.
pub(super) const PULL_TIMEOUT: Duration = Duration::from_secs(600);

/// How long the sender of a state waits for the receiver to have read it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends this member's state to a member that pulls it.
pub(crate) async fn serve_pull<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
) -> Result<(), String> {
    core.agreement.may_serve().map_err(|error| error.to_string())?;
    let Ok(_alone) = core.agreement.sending.try_lock() else {
        return Err("another member is being repaired".to_owned());
    };
    let (state, mark) = core.applied.now();
    let sent = within::<R, _>(PULL_TIMEOUT, send_pulled(duplex, &mark, &state).boxed()).await;
    sent.ok_or("the member that asked reads too slowly")??;
    // The receiver ends the stream once it has all frames. Ending it here would cut off frames under way.
    within::<R, _>(END_TIMEOUT, duplex.receiver.recv()).await;
    Ok(())
}
